#include "daemon/core/blocks.h"

#include <cmath>

#include "daemon/core/statistics.h"

namespace laggard::core {
namespace {

constexpr std::size_t kFewBlocks = 5, kManyBlocks = 10;
constexpr std::size_t kStepsForManyBlocks = 200;

}  // namespace

std::size_t block_count(std::size_t steps) {
  if (steps < kLeastStepsForBlocks) return 0;
  return steps < kStepsForManyBlocks ? kFewBlocks : kManyBlocks;
}

BlockFigures block_figures(std::span<const double> values) {
  BlockFigures figures;
  const std::size_t blocks = block_count(values.size());
  for (std::size_t block = 0; block < blocks; ++block) {
    std::vector<double> inside;
    for (std::size_t i = block * values.size() / blocks; i < (block + 1) * values.size() / blocks; ++i)
      if (!std::isnan(values[i])) inside.push_back(values[i]);
    figures.means.push_back(mean_of(inside));
    figures.medians.push_back(median_of(std::move(inside)));
  }
  return figures;
}

}  // namespace laggard::core
