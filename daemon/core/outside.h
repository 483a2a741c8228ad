// Whose stages cover less of the steps than the usual rank's, over the rows of a verdict.
#pragma once

#include <vector>

#include "daemon/core/verdict_window.h"

namespace laggard::core {

/// Told of ranks that stand out in so many of the steps.
inline constexpr double kOutsideShare = 0.8;

/// Over the `recent` newest of the rows from `begin` on, or all where there are fewer or it is 0. Pauses
/// (kPauseWalls) are left out. `sums` are those of the rows from `begin` on.
Outside find_outside(const OwnRows& rows, OwnRows::const_iterator begin, std::size_t recent,
                     const std::vector<VerdictWindow::Sums>& sums);

}  // namespace laggard::core
