// How a verdict is found. docs/verdict.md says what each rule is for and how often it errs.
#pragma once

#include <cstddef>

#include "daemon/core/verdict_window.h"

namespace laggard::core {

/// The mean excess must be so many of its standard errors ...
inline constexpr double kNamedSigmas = 5;
/// (so few steps cannot tell how they correlate: much is assumed)
inline constexpr std::size_t kFewSteps = 8;
inline constexpr double kAssumedCorrelation = 0.8;
/// ... and so many standard deviations away from the other ranks' means, where there are enough to tell.
inline constexpr double kNamedApart = 4;
inline constexpr std::size_t kEnoughToTellApart = 6;
/// Of the steps, so many have to have a named rank for their culprit: a single rank, and several or a group.
inline constexpr double kNamedShare = 0.10, kNamedShareOfGroup = 0.5;
/// A single rank must be the culprit so many times as often as any other.
inline constexpr double kNamedLead = 3;
/// A group fits about as well as the best choice of ranks.
inline constexpr double kGroupFit = 2;
/// So many neighbours that are slow together are a group though nothing says so.
inline constexpr std::size_t kNeighbours = 3;
/// Sync stages can hide a late rank when even the rank that waits least spends so much of the step in them,
/// or when they differ between the ranks by more than a balanced job's own times do.
inline constexpr double kHidingSync = 0.25;

/// What would gain less of the step than this is no what-if.
inline constexpr double kWorthListing = 0.001;
/// Own times on two clocks may add up to a little more than the wall.
inline constexpr double kRounding = 0.01;

}  // namespace laggard::core
