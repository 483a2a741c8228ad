#include "daemon/core/evidence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "daemon/core/change_point.h"

namespace laggard::core {
namespace {

constexpr std::size_t kTrimmedPart = 20;

}  // namespace

TrimmedMean trimmed_mean(std::span<const double> series) {
  std::vector<double> sorted(series.begin(), series.end());
  std::ranges::sort(sorted);
  const std::size_t n = sorted.size();
  const std::size_t cut = n < kFewSteps ? 0 : std::max<std::size_t>(1, n / kTrimmedPart);
  const auto left = std::span(sorted).subspan(cut, n - 2 * cut);
  TrimmedMean out{.mean = std::accumulate(left.begin(), left.end(), 0.0) / static_cast<double>(left.size())};
  const double low = left.front(), high = left.back();
  double sum = 0, squares = 0;
  for (double& value : sorted) sum += value = std::clamp(value, low, high);
  const double mean = sum / static_cast<double>(n);
  for (const double value : sorted) squares += (value - mean) * (value - mean);
  const double share = static_cast<double>(left.size()) / static_cast<double>(n);
  out.deviation = std::sqrt(squares / static_cast<double>(n - 1)) / share;
  return out;
}

bool is_evident(std::span<const double> series, double least, double sigmas, double noise,
                double autocorrelation) {
  if (series.size() < 2) return false;
  const TrimmedMean found = trimmed_mean(series);
  if (!(found.mean > least)) return false;
  const double r =
      series.size() < kFewSteps ? kAssumedCorrelation : std::max(autocorrelation_of(series), autocorrelation);
  const double independent = effective_size(static_cast<double>(series.size()), r);
  return found.mean >= sigmas * std::max(found.deviation, noise) / std::sqrt(independent);
}

}  // namespace laggard::core
