// How a verdict is found. docs/verdict.md says what each rule is for and how often it errs.
#pragma once

#include <cstddef>

#include "daemon/core/verdict_window.h"

namespace laggard::core {

/// The mean excess must be so many of its standard errors.
inline constexpr double kNamedSigmas = 5;
/// From so many ranks on, their noise is known well enough.
inline constexpr std::size_t kEnoughToKnowNoise = 4;
/// Of the steps, so many have to have a named rank for their culprit: a single rank, and several or a group.
inline constexpr double kNamedShare = 0.10, kNamedShareOfGroup = 0.5;
/// Those that stand apart less than others of their kind vary must be the culprits in so many steps.
inline constexpr double kNamedShareAlone = 0.8;
/// A single rank must be the culprit so many times as often as any other.
inline constexpr double kNamedLead = 3;
/// When those that stand apart most cannot be named, the next are looked at: so many choices in all.
inline constexpr std::size_t kChoices = 4;
/// Ranks in none of so many newest steps are not there any more.
inline constexpr std::ptrdiff_t kHereWithin = 3;
/// Of ranks that stand apart, those are meant that fall short of the slowest one's excess by no more than
/// this part of it and so many standard errors: the others are slow too, but nobody waits for them. The
/// newest steps are looked at alone first, with a bar for what is clear.
inline constexpr double kHoldsWithin = 0.2, kHoldsWithinErrors = 2;
inline constexpr std::ptrdiff_t kNowSteps = 10;
inline constexpr double kNowWithinErrors = 4;
/// Ranks that are slow in different stages are told so one by one, up to so many; unless one stage explains
/// so much of their excess.
inline constexpr std::size_t kStagesListed = 8;
inline constexpr double kMostlyOneStage = 0.75;
/// A step of so many usual ones is a pause, and in none of the means of those who are held guilty.
inline constexpr double kPauseWalls = 3;
/// Own times on two clocks may add up to a little more than the wall.
inline constexpr double kRounding = 0.01;

/// Who is slow now is looked for in `recent` steps, then in so many times as many, up to all that are judged.
inline constexpr std::size_t kMoreRecent = 4;

/// The verdict over the rows from `begin` on; `sums` are those of these rows. Who is slow in the `recent`
/// newest of them is looked for first (0: it is not). Rows before are looked at for the step since when
/// alone.
Verdict judge(const OwnRows& rows, OwnRows::const_iterator begin, std::size_t recent,
              const std::vector<VerdictWindow::Sums>& sums, const Placement& placement);

}  // namespace laggard::core
