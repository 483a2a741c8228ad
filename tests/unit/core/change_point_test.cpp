#include "daemon/core/change_point.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace laggard::core {
namespace {

std::vector<double> noisy(std::size_t n, double sigma, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<double> series(n);
  for (double& value : series) value = normal(random);
  return series;
}

TEST(ChangePoint, FindsTheFirstStepOfTheNewLevel) {
  std::vector<double> series = noisy(200, 1, 1);
  for (std::size_t i = 120; i < series.size(); ++i) series[i] += 5;
  const auto change = find_change(series);
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->at, 120U);
  EXPECT_NEAR(change->before, 0, 0.5);
  EXPECT_NEAR(change->after, 5, 0.5);
}

TEST(ChangePoint, WithoutNoiseAnyChangeIsOne) {
  std::vector<double> series(30, 2.0);
  for (std::size_t i = 20; i < series.size(); ++i) series[i] = 2.5;
  const auto change = find_change(series);
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->at, 20U);
  EXPECT_DOUBLE_EQ(change->before, 2.0);
  EXPECT_DOUBLE_EQ(change->after, 2.5);
}

TEST(ChangePoint, ASteadySeriesHasNone) {
  EXPECT_FALSE(find_change(std::vector<double>(100, 3.0)).has_value());
  int found = 0;
  for (unsigned seed = 0; seed < 200; ++seed) found += find_change(noisy(100, 1, seed)).has_value() ? 1 : 0;
  EXPECT_LE(found, 2);
}

TEST(ChangePoint, AnOutlierIsNoChange) {
  std::vector<double> series = noisy(100, 1, 3);
  series[97] += 1000;
  EXPECT_FALSE(find_change(series).has_value());
}

TEST(Episode, FindsItsFirstStepAndTheFirstAfterIt) {
  std::vector<double> series = noisy(100, 1, 1);
  for (std::size_t i = 50; i < 70; ++i) series[i] += 5;
  const auto episode = find_episode(series);
  ASSERT_TRUE(episode.has_value());
  EXPECT_EQ(episode->begin, 50U);
  EXPECT_EQ(episode->end, 70U);
  EXPECT_NEAR(episode->inside, 5, 0.7);
  EXPECT_NEAR(episode->outside, 0, 0.3);
  // It is looked for in the newest values alone.
  series.insert(series.end(), kEpisodeReach, 0.0);
  EXPECT_FALSE(find_episode(series).has_value());
}

TEST(Episode, OneChangeIsNone) {
  int found = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::vector<double> series = noisy(100, 1, seed);
    for (std::size_t i = 40; i < series.size(); ++i) series[i] += 5;
    found += find_episode(series).has_value() ? 1 : 0;
  }
  EXPECT_LE(found, 4);
}

TEST(Episode, ASteadySeriesHasNone) {
  EXPECT_FALSE(find_episode(std::vector<double>(100, 3.0)).has_value());
  int found = 0;
  for (unsigned seed = 0; seed < 200; ++seed) found += find_episode(noisy(100, 1, seed)).has_value() ? 1 : 0;
  EXPECT_LE(found, 4);
}

TEST(ChangePoint, TooShortToTell) {
  EXPECT_FALSE(find_change(std::vector<double>{0, 0, 0, 0, 9, 9, 9, 9, 9}).has_value());
  EXPECT_TRUE(find_change(std::vector<double>{0, 0, 0, 0, 0, 9, 9, 9, 9, 9}).has_value());
}

// x(t) = 0.8 x(t-1) + noise has the autocorrelation 0.8, and 200 of its values tell as much as 22.
TEST(ChangePoint, AutocorrelationIsEstimated) {
  double sum = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::vector<double> series = noisy(50, 1, seed);
    for (std::size_t i = 1; i < series.size(); ++i) series[i] += 0.8 * series[i - 1];
    sum += autocorrelation_of(series);
  }
  EXPECT_NEAR(sum / 100, 0.8, 0.05);
  EXPECT_EQ(autocorrelation_of(std::vector<double>(50, 1.0)), 0);
  EXPECT_NEAR(effective_size(200, 0.8), 22.2, 0.1);
  EXPECT_EQ(effective_size(200, -0.5), 200);
}

}  // namespace
}  // namespace laggard::core
