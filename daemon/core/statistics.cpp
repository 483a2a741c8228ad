#include "daemon/core/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace laggard::core {
namespace {

/// Sum of squares about the mean.
double squares_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

/// The interval of a figure with this standard error.
Interval t_interval(double figure, double error, double freedom) {
  if (!(error > 0) || !(freedom > 0)) return {};
  const boost::math::students_t distribution(freedom);
  const double half = error * boost::math::quantile(distribution, (1 + kConfidence) / 2);
  return {figure - half, figure + half};
}

/// Twice the rank of each value among all, so that the mean rank of a tie is a whole number too.
std::vector<std::size_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> ranks;
  ranks.reserve(values.size());
  for (const double value : values) {
    std::size_t below = 0, equal = 0;
    for (const double other : values) {
      below += other < value ? 1U : 0U;
      equal += other == value ? 1U : 0U;
    }
    ranks.push_back(2 * below + equal + 1);
  }
  return ranks;
}

}  // namespace

double mean_of(std::span<const double> values) {
  if (values.empty()) return kAbsent;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  if (values.empty()) return kAbsent;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double pooled_deviation(std::span<const double> base, std::span<const double> newer) {
  if (base.empty() || newer.empty() || base.size() + newer.size() < 3) return kAbsent;
  const auto freedom = static_cast<double>(base.size() + newer.size() - 2);
  return std::sqrt((squares_of(base) + squares_of(newer)) / freedom);
}

Interval difference_interval(std::span<const double> base, std::span<const double> newer) {
  if (base.empty() || newer.empty() || base.size() + newer.size() < 3) return {};
  const double shift = mean_of(newer) - mean_of(base);
  const auto n = static_cast<double>(base.size()), m = static_cast<double>(newer.size());
  if (base.size() == 1 || newer.size() == 1) {
    const double error = pooled_deviation(base, newer) * std::sqrt(1 / n + 1 / m);
    return t_interval(shift, error, n + m - 2);
  }
  // Variances of the two means, and Satterthwaite's degrees of freedom of their sum.
  const double a = squares_of(base) / (n - 1) / n, b = squares_of(newer) / (m - 1) / m;
  const double freedom = (a + b) * (a + b) / (a * a / (n - 1) + b * b / (m - 1));
  return t_interval(shift, std::sqrt(a + b), freedom);
}

Interval paired_interval(std::span<const double> base, std::span<const double> newer) {
  if (base.size() < 2 || base.size() != newer.size()) return {};
  std::vector<double> differences;
  for (std::size_t i = 0; i < base.size(); ++i) differences.push_back(newer[i] - base[i]);
  const auto n = static_cast<double>(differences.size());
  return t_interval(mean_of(differences), std::sqrt(squares_of(differences) / (n - 1) / n), n - 1);
}

double hodges_lehmann(std::span<const double> base, std::span<const double> newer) {
  std::vector<double> differences;
  differences.reserve(base.size() * newer.size());
  for (const double from : base)
    for (const double to : newer) differences.push_back(to - from);
  return median_of(std::move(differences));
}

double exact_rank_p(std::span<const double> base, std::span<const double> newer) {
  if (base.empty() || newer.empty()) return kAbsent;
  std::vector<double> all(base.begin(), base.end());
  all.insert(all.end(), newer.begin(), newer.end());
  const std::vector<std::size_t> ranks = doubled_ranks(all);
  const std::size_t total = std::accumulate(ranks.begin(), ranks.end(), std::size_t{0});
  // ways[k][s]: how many choices of k of the values seen so far have the doubled rank sum s.
  std::vector<std::vector<double>> ways(base.size() + 1, std::vector<double>(total + 1, 0));
  ways[0][0] = 1;
  for (const std::size_t rank : ranks)
    for (std::size_t k = base.size(); k > 0; --k)
      for (std::size_t sum = total; sum >= rank; --sum) ways[k][sum] += ways[k - 1][sum - rank];
  // Distances from the mean rank sum, times the number of values to stay whole.
  const auto distance = [&](std::size_t sum) {
    return std::abs(static_cast<std::int64_t>(sum * all.size()) -
                    static_cast<std::int64_t>(total * base.size()));
  };
  const std::size_t seen = std::accumulate(
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(base.size()), std::size_t{0});
  double as_far = 0, every = 0;
  for (std::size_t sum = 0; sum <= total; ++sum) {
    every += ways[base.size()][sum];
    if (distance(sum) >= distance(seen)) as_far += ways[base.size()][sum];
  }
  return as_far / every;
}

double smallest_rank_p(std::size_t base, std::size_t newer) {
  double deals = 1;
  for (std::size_t i = 1; i <= base; ++i) deals *= static_cast<double>(newer + i) / static_cast<double>(i);
  return std::min(1.0, 2 / deals);
}

std::size_t runs_needed() {
  std::size_t runs = 1;
  while (smallest_rank_p(runs, runs) > kSignificance) ++runs;
  return runs;
}

}  // namespace laggard::core
