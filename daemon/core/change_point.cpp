#include "daemon/core/change_point.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "daemon/core/spread.h"

namespace laggard::core {
namespace {

// A median absolute deviation times this estimates the standard deviation of normal values.
constexpr double kMadToSigma = 1.4826;
constexpr double kOutlier = 4;

double middle_of(std::vector<double> values) { return Middle(values).median(); }

void pull_in_outliers(std::vector<double>& values) {
  const double median = middle_of(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - median));
  const double reach = kOutlier * kMadToSigma * middle_of(std::move(distances));
  if (reach == 0) return;  // most values are the same: nothing says what an outlier is
  for (double& value : values) value = std::clamp(value, median - reach, median + reach);
}

double average_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The split whose two means explain most, and the sum of squares that they explain.
std::pair<std::size_t, double> best_split(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = average_of(values);
  std::pair<std::size_t, double> best{0, 0};
  double sum = 0;
  for (std::size_t at = 1; at + kChangeMargin <= values.size(); ++at) {
    sum += values[at - 1] - mean;
    if (at < kChangeMargin) continue;
    const auto left = static_cast<double>(at);
    const double explained = sum * sum * n / (left * (n - left));
    if (explained > best.second) best = {at, explained};
  }
  return best;
}

}  // namespace

double effective_size(double n, double autocorrelation) {
  const double r = std::clamp(autocorrelation, 0.0, 0.95);
  return n * (1 - r) / (1 + r);
}

double autocorrelation_of(std::span<const double> series) {
  if (series.size() < 8) return 0;
  const double mean = average_of(series);
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double d = series[i] - mean;
    squares += d * d;
    if (i > 0) products += d * (series[i - 1] - mean);
  }
  if (squares == 0) return 0;
  const auto n = static_cast<double>(series.size());
  return (products / squares + 1 / n) / (1 - 3 / n);
}

std::optional<ChangePoint> find_change(std::span<const double> series) {
  if (series.size() < 2 * kChangeMargin) return std::nullopt;
  std::vector<double> values(series.begin(), series.end());
  pull_in_outliers(values);
  const auto [at, explained] = best_split(values);
  if (explained == 0) return std::nullopt;
  const double before = average_of(std::span(values).first(at)),
               after = average_of(std::span(values).subspan(at));
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] -= i < at ? before : after;
    squares += values[i] * values[i];
  }
  const auto n = static_cast<double>(values.size());
  const double variance = squares / (n - 2);
  const double inflation = n / effective_size(n, autocorrelation_of(values));
  if (explained <= kChangeEvidence * variance * inflation) return std::nullopt;
  return ChangePoint{at, average_of(series.first(at)), average_of(series.subspan(at))};
}

}  // namespace laggard::core
