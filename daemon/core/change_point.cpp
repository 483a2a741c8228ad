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

struct Stretch {
  std::size_t begin = 0, end = 0;
  double explained = 0;  // sum of squares
};

// The stretch whose mean and that of the rest explain most.
Stretch best_stretch(std::span<const double> values) {
  const std::size_t size = values.size();
  const auto n = static_cast<double>(size);
  const double mean = average_of(values);
  std::vector<double> sums{0};  // of the values before each index, less the mean
  sums.reserve(size + 1);
  for (const double value : values) sums.push_back(sums.back() + value - mean);
  Stretch best;
  for (std::size_t end = 2 * kChangeMargin; end + kChangeMargin <= size; ++end)
    for (std::size_t begin = kChangeMargin; begin + kChangeMargin <= end; ++begin) {
      const auto inside = static_cast<double>(end - begin);
      const double sum = sums[end] - sums[begin];
      const double explained = sum * sum * n / (inside * (n - inside));
      if (explained > best.explained) best = {begin, end, explained};
    }
  return best;
}

// The variance of what is left of the values when those from `begin` to `end` have one mean and the others
// another one, times what its autocorrelation adds to the variance of a mean.
double variance_of_mean(std::span<const double> values, std::size_t begin, std::size_t end) {
  const auto is_inside = [&](std::size_t i) { return i >= begin && i < end; };
  double inside = 0, outside = 0;
  for (std::size_t i = 0; i < values.size(); ++i) (is_inside(i) ? inside : outside) += values[i];
  inside /= static_cast<double>(end - begin);
  outside /= static_cast<double>(values.size() - (end - begin));
  std::vector<double> rest;
  rest.reserve(values.size());
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    rest.push_back(values[i] - (is_inside(i) ? inside : outside));
    squares += rest.back() * rest.back();
  }
  const auto n = static_cast<double>(values.size());
  return squares / (n - 2) * n / effective_size(n, autocorrelation_of(rest));
}

}  // namespace

double effective_size(double n, double autocorrelation) {
  const double r = std::clamp(autocorrelation, 0.0, 0.95);
  return n * (1 - r) / (1 + r);
}

namespace {

// The median distance of values so many steps apart, which a few changes of level do not move.
double usual_distance(std::span<const double> series, std::size_t steps) {
  std::vector<double> distances;
  distances.reserve(series.size());
  for (std::size_t i = steps; i < series.size(); ++i)
    distances.push_back(std::abs(series[i] - series[i - steps]));
  return middle_of(std::move(distances));
}

// The r for which 1 + r + ... + r^(steps - 1) is `ratio`.
double correlation_for(double ratio, std::size_t steps) {
  double low = 0, high = 1;
  for (int i = 0; i < 30; ++i) {
    const double r = (low + high) / 2;
    const double sum = (1 - std::pow(r, static_cast<double>(steps))) / (1 - r);
    (sum < ratio ? low : high) = r;
  }
  return low;
}

// Of a first-order autoregression the variance of x(t + k) - x(t) is 1 + r + ... + r^(k - 1) times that of
// x(t + 1) - x(t). Noise that wanders beneath other noise shows over longer distances only. The margin is
// four times what medians of n distances are off by, about 1 / sqrt(n).
double most_correlation(std::span<const double> series) {
  const double one = usual_distance(series, 1);
  if (one == 0) return 1;
  double most = 0;
  for (const std::size_t steps : {2U, 8U, 32U}) {
    if (4 * steps > series.size()) break;
    const double ratio = usual_distance(series, steps) / one;
    most = std::max(most, correlation_for(ratio * ratio, steps));
  }
  return most + 4 / std::sqrt(static_cast<double>(series.size()));
}

}  // namespace

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
  const double r = (products / squares + 1 / n) / (1 - 3 / n);
  return r > 0 ? std::min(r, most_correlation(series)) : r;
}

std::optional<ChangePoint> find_change(std::span<const double> series) {
  if (series.size() < 2 * kChangeMargin) return std::nullopt;
  std::vector<double> values(series.begin(), series.end());
  pull_in_outliers(values);
  const auto [at, explained] = best_split(values);
  if (explained == 0) return std::nullopt;
  if (explained <= kChangeEvidence * variance_of_mean(values, at, values.size())) return std::nullopt;
  return ChangePoint{at, average_of(series.first(at)), average_of(series.subspan(at))};
}

std::optional<ChangePoint> find_last_change(std::span<const double> series) {
  constexpr int kMost = 16;
  auto last = find_change(series);
  for (int i = 0; i < kMost && last.has_value(); ++i) {
    const auto next = find_change(series.subspan(last->at));
    if (!next.has_value()) break;
    last = ChangePoint{last->at + next->at, next->before, next->after};
  }
  return last;
}

std::optional<Episode> find_episode(std::span<const double> all) {
  const std::size_t skipped = all.size() - std::min(all.size(), kEpisodeReach);
  const auto series = all.subspan(skipped);
  if (series.size() < 3 * kChangeMargin) return std::nullopt;
  std::vector<double> values(series.begin(), series.end());
  pull_in_outliers(values);
  const Stretch best = best_stretch(values);
  if (best.explained == 0) return std::nullopt;
  const double by_one_change = best_split(values).second;
  if (best.explained - by_one_change <= kChangeEvidence * variance_of_mean(values, best.begin, best.end))
    return std::nullopt;
  const auto inside = series.subspan(best.begin, best.end - best.begin);
  const double sum = average_of(inside) * static_cast<double>(inside.size());
  const double total = average_of(series) * static_cast<double>(series.size());
  return Episode{skipped + best.begin, skipped + best.end, average_of(inside),
                 (total - sum) / static_cast<double>(series.size() - inside.size())};
}

}  // namespace laggard::core
