// The step time if something took as long as it does on the median rank.
#pragma once

#include <vector>

#include "daemon/core/verdict_window.h"

namespace laggard::core {

/// What would gain less of the step than this is no what-if.
inline constexpr double kWorthListing = 0.001;

/// For the verdict's culprits and held ranks, the groups these are in, and every stage; the one that would
/// gain most first.
std::vector<WhatIf> what_if(const OwnRows& rows, OwnRows::const_iterator begin, const Verdict& verdict,
                            const Placement& placement);

}  // namespace laggard::core
