// Consecutive steps of one run in a few blocks: what stands in for repetitions when a run has none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/base/value.h"

namespace laggard::core {

/// One figure a block, the first steps first. Empty when there are too few steps for blocks; kAbsent for a
/// block in which no step has a value.
struct BlockFigures {
  std::vector<double> medians, means;
};

/// With fewer steps there are no blocks.
inline constexpr std::size_t kLeastStepsForBlocks = 20;

/// How many blocks are made of so many steps: 0, 5, or 10 from 200 steps on. Steps that follow each other are
/// alike, and only blocks that are long beside that likeness are nearly independent: hence few and long ones
/// (batch means: Schmeiser 1982, Operations Research 30:556).
std::size_t block_count(std::size_t steps);

/// `values`: one a step, in their order; NaNs are left out.
BlockFigures block_figures(std::span<const double> values);

}  // namespace laggard::core
