// The steps that a verdict is over.
#pragma once

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

/// Own times of the newest steps, and the verdict over them. Adding a step costs O(ranks), judging
/// O(steps + ranks log ranks), and for groups of ranks that were found O(steps x ranks).
class VerdictWindow {
 public:
  struct Size {
    std::size_t judged = 0;  ///< the newest steps, which the verdict is over; 0: all
    std::size_t kept = 0;    ///< more of them, in which the step since when is looked for; 0: all
    std::size_t cells = 0;   ///< ranks x steps that may be kept beyond `judged` steps; 0: any number
  };
  explicit VerdictWindow(Size size) : size_(size) {}

  /// Takes a step, or takes it again as it is now. One without a valid wall, or with fewer than two ranks
  /// whose own times are known, is not taken.
  void put(const StepOwn& step);
  void drop(Step step);
  std::size_t size() const { return rows_.size(); }

  Verdict judge(const Placement& placement) const;

 private:
  friend class Judge;
  struct Row {
    std::shared_ptr<const OwnTimes> own;
    double wall_ms = 0;
    bool partial = false;
    std::optional<Rank> culprit;
    double max_own_ms = 0, mean_own_ms = 0, min_own_ms = 0;
    Rank max_rank = 0;                   // the lowest on a tie
    double second_own_ms = 0;            // the largest of the other ranks
    Middle middle;                       // of the own times
    double excess(std::size_t i) const;  // of own->ranks[i], over the median of the others
  };
  using Rows = std::map<Step, Row>;
  /// Of one rank over the judged steps.
  struct Sums {
    Rank rank = 0;
    std::uint32_t steps = 0;
    double excess = 0, squares = 0;
  };

  Rows::const_iterator judged_begin() const;
  void add(const Row& row, double sign) const;
  void rebuild() const;
  void trim();

  Size size_;
  Rows rows_;
  std::size_t cells_ = 0;
  // Over the judged rows; made again when it is asked for and a step other than the newest has changed.
  mutable std::vector<Sums> sums_;
  mutable bool stale_ = false;
  mutable std::size_t moved_ = 0;  // steps since they were made
};

}  // namespace laggard::core
