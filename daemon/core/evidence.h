// How sure the mean of a noisy series is.
#pragma once

#include <cstddef>
#include <span>

namespace laggard::core {

/// So few values cannot tell how they correlate: much is assumed.
inline constexpr std::size_t kFewSteps = 8;
inline constexpr double kAssumedCorrelation = 0.8;

struct TrimmedMean {
  double mean = 0;
  double deviation = 0;  ///< of one value, so that deviation / sqrt(n) is the mean's standard error
};

/// The mean without the twentieth that is largest and the twentieth that is smallest (at least one value each
/// from kFewSteps on), so that one pause is no level. The deviation is that of the series with these pulled
/// in to the next value, over the share that is left (Tukey and McLaughlin 1963). Needs two values.
TrimmedMean trimmed_mean(std::span<const double> series);

/// Whether the mean is above `least`, and at least `sigmas` of its standard errors. `noise` is a floor for
/// the deviation, `autocorrelation` one for that of the series: both as others of its kind have them.
bool is_evident(std::span<const double> series, double least, double sigmas, double noise,
                double autocorrelation);

}  // namespace laggard::core
