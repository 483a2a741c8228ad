// The expected figures come from a program of their own: the t distribution integrated numerically, the rank
// test by going through every way to deal the values.
#include "daemon/core/statistics.h"

#include <gtest/gtest.h>

#include "daemon/core/blocks.h"

namespace laggard::core {
namespace {

using Values = std::vector<double>;

TEST(Statistics, WelchsIntervalLetsEachSideHaveItsSpread) {
  const Interval walls = difference_interval(Values{14674, 14716}, Values{15416, 15348});
  EXPECT_NEAR(walls.low, 477.410656, 1e-5);  // 1.666 degrees of freedom
  EXPECT_NEAR(walls.high, 896.589344, 1e-5);
  const Interval four = difference_interval(Values{10, 11, 13, 12}, Values{14, 15, 11.5, 17});
  EXPECT_NEAR(four.low, -0.557545736, 1e-8);
  EXPECT_NEAR(four.high, 6.307545736, 1e-8);
}

TEST(Statistics, OneRunOnASideTakesTheOthersSpread) {
  const Interval pooled = difference_interval(Values{10}, Values{12, 13, 15});
  EXPECT_NEAR(pooled.low, -4.255832734, 1e-8);
  EXPECT_NEAR(pooled.high, 10.922499401, 1e-8);
  EXPECT_FALSE(difference_interval(Values{10}, Values{12}).is_known());
}

TEST(Statistics, ValuesThatDoNotDifferAreNoMeasureOfASpread) {
  EXPECT_FALSE(difference_interval(Values{1, 1}, Values{2, 2}).is_known());
  EXPECT_FALSE(paired_interval(Values{1, 2}, Values{2, 3}).is_known());
}

TEST(Statistics, PairsTakeOutWhatBothSidesShare) {
  const Interval paired = paired_interval(Values{10, 12, 11, 9, 10}, Values{11, 14, 11.5, 10, 12});
  EXPECT_NEAR(paired.low, 0.467066468, 1e-8);
  EXPECT_NEAR(paired.high, 2.132933532, 1e-8);
  EXPECT_FALSE(paired_interval(Values{1}, Values{2}).is_known());
}

TEST(Statistics, HodgesLehmannIsTheMedianOfAllDifferences) {
  EXPECT_DOUBLE_EQ(hodges_lehmann(Values{10, 11, 13, 12}, Values{14, 15, 11.5, 17}), 3.0);
  // One run gone wild moves a mean, not this.
  EXPECT_DOUBLE_EQ(hodges_lehmann(Values{10, 10, 10}, Values{11, 11, 500}), 1.0);
}

TEST(Statistics, TheRankTestIsExactWithTiesToo) {
  EXPECT_DOUBLE_EQ(exact_rank_p(Values{10, 11, 13, 12}, Values{14, 15, 11.5, 17}), 8.0 / 70);
  EXPECT_DOUBLE_EQ(exact_rank_p(Values{1, 2, 2, 3}, Values{2, 3, 4, 4, 5}), 11.0 / 126);
  EXPECT_DOUBLE_EQ(exact_rank_p(Values{1, 2, 3, 4}, Values{5, 6, 7, 8}), 2.0 / 70);
  EXPECT_DOUBLE_EQ(exact_rank_p(Values{5, 5}, Values{5, 5}), 1);
}

TEST(Statistics, FourRunsASideAreWhatARankTestNeeds) {
  EXPECT_DOUBLE_EQ(smallest_rank_p(2, 2), 1.0 / 3);
  EXPECT_DOUBLE_EQ(smallest_rank_p(3, 3), 0.1);
  EXPECT_DOUBLE_EQ(smallest_rank_p(4, 4), 2.0 / 70);
  EXPECT_DOUBLE_EQ(smallest_rank_p(1, 1), 1);
  EXPECT_EQ(runs_needed(), 4U);
}

TEST(Statistics, SixtyFourRunsAreDealtInNoTime) {
  Values base, newer;
  for (int i = 0; i < 32; ++i) {
    base.push_back(i);
    newer.push_back(i + 0.5);
  }
  const double p = exact_rank_p(base, newer);
  EXPECT_GT(p, 0.5);
  EXPECT_LT(p, 1);
}

TEST(Blocks, AreFewAndOfStepsThatFollowEachOther) {
  EXPECT_EQ(block_count(19), 0U);
  EXPECT_EQ(block_count(20), 5U);
  EXPECT_EQ(block_count(199), 5U);
  EXPECT_EQ(block_count(200), 10U);
  Values values;
  for (int i = 0; i < 20; ++i) values.push_back(i);
  values[3] = 100;
  values[4] = kAbsent;
  const BlockFigures figures = block_figures(values);
  EXPECT_EQ(figures.medians, (Values{1.5, 6, 9.5, 13.5, 17.5}));  // 0 1 2 100, 5 6 7, 8 9 10 11 ...
  EXPECT_EQ(figures.means, (Values{25.75, 6, 9.5, 13.5, 17.5}));
  EXPECT_TRUE(block_figures(Values(19, 1.0)).medians.empty());
}

TEST(Blocks, OneWithoutAValueIsAbsentAndNotZero) {
  Values values(20, 1.0);
  for (int i = 8; i < 12; ++i) values[static_cast<std::size_t>(i)] = kAbsent;
  EXPECT_EQ(state_of(block_figures(values).medians[2]), ValueState::absent);
}

}  // namespace
}  // namespace laggard::core
