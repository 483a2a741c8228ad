// Which ranks stand apart from the others.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/verdict.h"

namespace laggard::core {

/// Of one rank over the judged steps.
struct RankMean {
  Rank rank = 0;
  double excess_ms = 0;
};

/// A group fits about as well as the best choice of ranks.
inline constexpr double kGroupFit = 2;
/// The two parts are so many standard deviations away from each other, where there are enough ranks to tell.
inline constexpr double kNamedApart = 4;
inline constexpr std::size_t kEnoughToTellApart = 6;

/// Some ranks, as those that are slow, and how far they are from the others.
struct Split {
  std::vector<Rank> ranks;           ///< ascending
  const RankGroup* group = nullptr;  ///< of the placement, when they are one
  std::size_t among = 0;             ///< how many ranks there were to choose from
  double within = 0;                 ///< sum of squares that is left within the two parts
  double apart_ms = 0;

  /// The larger, the better these ranks explain how the means spread. What is left within the parts would
  /// not do as a measure: of many ranks, halves leave less of mere noise than one outlier and the others.
  double fit() const;
  bool stands_apart() const;
};

/// Parts at most half of the ranks from the others, where that explains most; ranks that are a group are
/// preferred when they explain about as much. `means` by rank; those of `without` are left out. Nothing when
/// under two ranks are left.
std::optional<Split> best_split(const std::vector<RankMean>& means, const std::set<Rank>& without,
                                const std::vector<RankGroup>& groups);

/// The group whose ranks these are, of those that have a mean; null when there is none.
const RankGroup* group_of(const std::vector<Rank>& ranks, const std::vector<RankMean>& means,
                          const std::vector<RankGroup>& groups);

/// Three neighbours or more that are slow together are a group though nothing says so.
std::optional<RankGroup> neighbours(const std::vector<Rank>& ranks);

/// How often a rank was the culprit.
struct CulpritCount {
  Rank rank = 0;
  std::size_t steps = 0;
};
/// The smallest choice that was the culprit in `steps` steps: one rank, else the group of fewest
/// ranks that is at most half of those with a mean. `counts` by rank.
std::optional<Split> most_culprits(const std::vector<CulpritCount>& counts, double steps,
                                   const std::vector<RankMean>& means, const std::vector<RankGroup>& groups);

}  // namespace laggard::core
