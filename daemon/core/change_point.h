// Where a series changes its level.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace laggard::core {

struct ChangePoint {
  std::size_t at = 0;  ///< index of the first value of the new level
  double before = 0, after = 0;
};

/// A level that lasted for a while.
struct Episode {
  std::size_t begin = 0, end = 0;  ///< indices of its first value, and of the first one after it
  double inside = 0, outside = 0;
};

/// The one change of level that explains most of a series: least squares over all splits that leave
/// kChangeMargin values on either side, taken for real when it explains kChangeEvidence times the variance
/// of a mean that the residuals have, their first-order autocorrelation taken into account. Single outliers
/// are pulled in to four robust standard deviations before. The rate of false alarms is in docs/verdict.md.
std::optional<ChangePoint> find_change(std::span<const double> series);

/// The one stretch whose level differs most from the rest, found in the same way; it leaves kChangeMargin
/// values on either side and has as many. Nothing when one change of level explains the series about as well.
/// Looked at are the newest kEpisodeReach values, since the work grows with the square of their number.
std::optional<Episode> find_episode(std::span<const double> series);
inline constexpr std::size_t kEpisodeReach = 400;
/// The last change of level: changes are looked for behind one that is found until there is none.
std::optional<ChangePoint> find_last_change(std::span<const double> series);

inline constexpr std::size_t kChangeMargin = 5;
inline constexpr double kChangeEvidence = 16;

/// How many independent values tell as much about the mean as `n` values of a series whose neighbours
/// correlate like this: n (1 - r) / (1 + r), for r from 0 to 0.95.
double effective_size(double n, double autocorrelation);
/// First-order autocorrelation of a series about its mean, corrected for the bias that short series have
/// (Marriott and Pope 1954: -(1 + 3 r) / n); 0 for a constant series and for one of under eight values.
/// Levels that come and go look like much correlation; in long series it is no larger than what the
/// differences of values 1, 2, 8 and 32 steps apart leave possible.
double autocorrelation_of(std::span<const double> series);

}  // namespace laggard::core
