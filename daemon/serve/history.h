// What the query service needs from storage. The executable puts a read-only database connection behind it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "daemon/core/report.h"
#include "daemon/core/snapshot.h"
#include "daemon/core/step_records.h"
#include "daemon/core/writes.h"

namespace laggard::serve {

/// A query took longer than it may, or was interrupted.
class QueryTimeout : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Stored steps of all attempts. One thread at a time uses a History; each worker has its own. Every method
/// is limited in time and throws QueryTimeout, or laggard::Error when the database fails.
class History {
 public:
  virtual ~History() = default;

  /// The attempt of this number, the newest one without a number; nothing when there is none.
  virtual std::optional<core::AttemptRow> attempt(std::string_view run,
                                                  std::optional<std::uint32_t> number) = 0;
  /// Every rank that ever reported in the attempt, ascending.
  virtual std::vector<core::RankRow> ranks(core::AttemptId attempt) = 0;
  virtual core::StageTable stages(core::AttemptId attempt) = 0;

  /// Summaries of the steps in the window, ascending; at most `limit` of them, the last ones when `newest`
  /// is set, else the first. Their breakdowns may lack the stages.
  virtual std::vector<core::StepView> steps(core::AttemptId attempt, core::Window window, std::size_t limit,
                                            bool newest) = 0;
  /// One step's summary with its stages.
  virtual std::optional<core::StepView> step(core::AttemptId attempt, Step step) = 0;

  /// Gets a step's records, the layouts they refer to, and says whether it wants the next step.
  using Visit = std::function<bool(const core::StepRecords& records, const LayoutTable& layouts)>;
  /// Shows every step in the window whose records are still stored, ascending. `layouts` grows but the
  /// table stays the same object as long as this History lives.
  virtual void each_step(core::AttemptId attempt, core::Window window, const Visit& visit) = 0;
  /// Every layout that is stored now; the same object that each_step() hands out.
  virtual const LayoutTable& layouts() = 0;
};

}  // namespace laggard::serve
