// What one step says: who was slowest, how each stage spreads over the ranks, who made the others wait.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/value.h"
#include "daemon/core/model.h"
#include "daemon/core/own_time.h"
#include "daemon/core/spread.h"
#include "daemon/core/step_records.h"
#include "daemon/core/verdict_window.h"

namespace laggard::core {

/// One stage on one clock, times in ms.
struct StageBreakdown {
  StageId stage = kNoStage;
  Clock clock = Clock::stream;
  Spread spread;
  double slowest_ms = kAbsent;            ///< on the step's slowest rank; null, negative ... as measured
  double slowest_exclusive_ms = kAbsent;  ///< the same less its children; kAbsent without children there
  double others_median_ms = kAbsent;      ///< over the other ranks that have it; kAbsent for a stored step
  double others_max_ms = kAbsent;
  double culprit_ms = kAbsent;  ///< on the step's culprit, as measured; kAbsent for a stored step
  std::uint32_t invalid = 0;    ///< ranks whose value is negative, non-finite or text
  std::uint32_t null = 0;       ///< ranks whose value is null
};

struct StepBreakdown {
  Step step = 0;
  std::uint32_t present = 0;    ///< ranks with a record
  Spread wall;                  ///< valid walls only
  std::optional<Rank> slowest;  ///< largest valid wall, lowest rank on a tie; none without a valid wall
  bool near_tie = false;        ///< the largest wall is within 0.1 % of the smallest: wall names nobody
  Clock clock = Clock::stream;  ///< own times are compared on it, but for input that only the host timed
  Spread own;                   ///< own times of the ranks where it is known
  std::optional<Culprit> culprit;
  std::shared_ptr<const OwnTimes> own_times;  ///< null for a stored step
  std::vector<StageBreakdown> stages;         ///< stream first, then host; by stage id
  std::uint32_t invalid_values = 0;           ///< negative, non-finite and text, walls included
  std::vector<std::string> tags;              ///< of any rank, each once, sorted
  bool aside = false;  ///< a tag or an aside stage: this is no normal step, a window leaves it out
};

/// A rank with a wall so near the smallest that wall time names nobody (DESIGN: near tie), as a fraction.
inline constexpr double kNearTie = 0.001;

/// How many values of a record cannot be used: negative, non-finite or text times, non-finite values.
std::uint32_t count_invalid(const RecordView& record);

/// Computes the breakdown of a step. The answer does not depend on the order of arrival.
StepBreakdown break_down(const StepRecords& records, const LayoutTable& layouts, const StageTable& stages);

/// What a verdict needs of it.
StepOwn own_of(const StepBreakdown& step);

/// The exclusive time of a parent in reports: "<parent>_other", or what the profile calls it.
std::string exclusive_name(std::string_view parent);

}  // namespace laggard::core
