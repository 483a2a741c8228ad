// The steps that a verdict is over.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/core/own_time.h"
#include "daemon/core/verdict.h"

namespace laggard::core {

/// What a verdict needs of one step.
struct StepOwn {
  Step step = 0;
  double wall_ms = kAbsent;  ///< of the slowest rank
  std::optional<Rank> culprit;
  std::shared_ptr<const OwnTimes> own;
  bool partial = false;  ///< a rank is missing
};

/// One step of a window.
struct OwnRow {
  std::shared_ptr<const OwnTimes> own;
  double wall_ms = 0;
  bool partial = false;
  std::optional<Rank> culprit;
  double max_own_ms = 0, mean_own_ms = 0, min_own_ms = 0;
  Rank max_rank = 0;         ///< the lowest on a tie
  double second_own_ms = 0;  ///< the largest of the other ranks
  bool odd = false;          ///< an own time is more than kOddWalls times the wall
  Middle middle;             ///< of the own times

  /// Of own->ranks[i], over the median of the others.
  double excess(std::size_t i) const;
  /// The same, no further from 0 than a quarter of the median own time: one long pause is not a slow rank.
  double bounded_excess(std::size_t i) const;
  /// Mean excess of some ranks (ascending): of one over the median of the others, of several over their mean.
  /// Nothing when none of them, or none of the others, is in the row.
  std::optional<double> excess_of(const std::vector<Rank>& ranks) const;
  /// The largest own time of ranks other than these; 0 when there is none.
  double largest_without(const std::vector<Rank>& ranks) const;
  /// Visits the places in the row of those of the ranks, ascending, that are in it.
  template <typename Visit>
  void each_of(const std::vector<Rank>& ranks, const Visit& visit) const {
    auto at = own->ranks.begin();
    for (const Rank rank : ranks) {
      at = std::lower_bound(at, own->ranks.end(), rank);
      if (at == own->ranks.end()) return;
      if (*at == rank) visit(static_cast<std::size_t>(at - own->ranks.begin()));
    }
  }
};
using OwnRows = std::map<Step, OwnRow>;

/// Own times of the newest steps, and the verdict over them. Adding a step costs O(ranks), judging
/// O(steps + ranks log ranks), and for each choice of ranks that is looked at O(steps x these ranks).
class VerdictWindow {
 public:
  struct Size {
    std::size_t judged = 0;  ///< the newest steps, which the verdict is over; 0: all
    /// Of these the newest, of which those who are slow now are looked for first; then four times as many,
    /// and so on. 0: they are not.
    std::size_t recent = 0;
    std::size_t kept = 0;  ///< more of them, in which the step since when is looked for; 0: all
    /// Ranks x steps that may be kept beyond kTentativeSteps steps, which are always kept; 0: any number.
    std::size_t cells = 0;
  };
  explicit VerdictWindow(Size size) : size_(size) {}

  /// Takes a step, or takes it again as it is now. One without a valid wall, or with fewer than two ranks
  /// whose own times are known, is not taken.
  void put(const StepOwn& step);
  void drop(Step step);
  /// Ranks are missing in a step that was taken.
  void set_partial(Step step);
  std::size_t size() const { return rows_.size(); }
  std::optional<Step> newest() const {
    return rows_.empty() ? std::nullopt : std::optional(rows_.rbegin()->first);
  }

  Verdict judge(const Placement& placement) const;

  /// What a rank's steps add up to over the judged steps.
  struct Sums {
    Rank rank = 0;
    std::uint32_t steps = 0;
    double excess = 0;
    double bounded = 0, bounded_squares = 0;  ///< of bounded_excess()
  };

 private:
  OwnRows::const_iterator judged_begin() const;
  void add(const OwnRow& row, double sign) const;
  void rebuild() const;
  VerdictWindow without_odd() const;
  void trim();
  void forget_first();

  Size size_;
  OwnRows rows_;
  std::size_t cells_ = 0;
  // Over the judged rows; made again when it is asked for and a step other than the newest has changed.
  mutable std::vector<Sums> sums_;
  mutable bool stale_ = false;
  mutable std::size_t moved_ = 0;  // steps since they were made
};

}  // namespace laggard::core
