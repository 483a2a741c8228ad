// The time of its own that each rank spent in a step, and who made the others wait.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/core/model.h"
#include "daemon/core/spread.h"
#include "daemon/core/stage_times.h"

namespace laggard::core {

/// The rank with the largest own time, when that exceeds the median own time by over 1 % of the wall.
struct Culprit {
  Rank rank = 0;
  double own_excess_ms = 0;    ///< its own time less the median own time
  StageId stage = kNoStage;    ///< the stage whose exclusive time has the largest excess
  double stage_excess_ms = 0;  ///< over the median of the other ranks, 0 where they do not have the stage
};

/// How far above the median own time, as a fraction of the wall, a culprit must be.
inline constexpr double kCulpritExcess = 0.01;
/// How much less of the wall than the median rank's the stages of a rank must cover, as a fraction, to be
/// told.
inline constexpr double kWorthTelling = 0.03;

/// What the verdict over a window needs of one step. Times in ms; single precision is far finer than any
/// clock of a GPU, and halves what a long window holds.
struct OwnTimes {
  std::vector<Rank> ranks;  ///< those whose own time is known, ascending; all below in this order
  std::vector<float> own_ms;
  std::vector<StageId> stage;  ///< with the largest excess over the other ranks' median; kNoStage: none
  std::vector<float> stage_excess_ms;  ///< that excess, at most that of the own time
  struct Recoverable {
    StageId stage = kNoStage;
    float ms =
        0;  ///< how much smaller the largest own time would be, were this stage as its median everywhere
  };
  std::vector<Recoverable> recoverable;
  /// Time in sync stages: of the rank that has least of it, and of the one that has most. kAbsent without
  /// any.
  double least_sync_ms = kAbsent, most_sync_ms = kAbsent;
  StageId longest_sync = kNoStage;  ///< the sync stage with the largest median
  /// What the stages of the rank with the largest own time cover more than the others' median, sync stages
  /// and all. 0 where it is not known. Those who wait for that rank in a stage cover as much as it does.
  float more_covered_ms = 0;
  struct Outside {
    Rank rank = 0;
    float excess_ms = 0;
  };
  /// Ranks, ascending, whose stages cover less of the step than the median rank's, by over kWorthTelling of
  /// its wall. At most a third of the ranks, else none.
  std::vector<Outside> outside;
  std::vector<Rank> unknown;  ///< ranks with stages whose own time is not known all the same
};

struct OwnTimesOfStep {
  Clock clock = Clock::stream;  ///< the stages are compared on it, but for input that only the host timed
  Spread own;                   ///< of the ranks where it is known
  std::optional<Culprit> culprit;
  std::shared_ptr<const OwnTimes> ranks;
};

/// `wall_ms` is that of the slowest rank; without a valid one nobody is the culprit.
OwnTimesOfStep measure_own(std::span<const RecordView> records, const StageTimes& stream,
                           const StageTimes& host, const StageTable& stages, double wall_ms);

}  // namespace laggard::core
