// History for the query service: a read-only connection of its own, beside the writer's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/snapshot.h"
#include "daemon/core/writes.h"
#include "daemon/store/block_reader.h"
#include "daemon/store/database.h"

namespace laggard::store {

/// Which steps, both ends inclusive, and how many of them at most.
struct StepRange {
  std::optional<Step> from, to;
  std::size_t limit = 0;
  bool newest = false;  ///< the limit takes the newest ones, not the oldest
};

/// A step as it was stored. Its view differs from the live one in this only: a slowest_ms that was measured
/// as NaN has lost its sign and payload, and -0.0 is 0.0. `records` have every bit.
struct StoredStep {
  core::StepView view;
  std::unique_ptr<core::StepRecords> records;  ///< null when none are kept any more
};

/// For one thread at a time. Every method reads one consistent state of the database, in a transaction that
/// is over when it returns, and throws QueryTimeout when it takes longer than the limit; Error when
/// something stored is damaged.
class Reader {
 public:
  /// Opens Store::database_path() of a store that is open. `limit` is for each call.
  Reader(const std::filesystem::path& database, std::chrono::milliseconds limit);

  /// Ascending by number; empty when there is no such run.
  std::vector<core::AttemptRow> attempts(std::string_view run);
  std::vector<core::RankRow> ranks(core::AttemptId attempt);  ///< ascending
  core::StageTable stages(core::AttemptId attempt);

  /// Ascending; the summaries alone: breakdown.stages is empty.
  std::vector<core::StepView> steps(core::AttemptId attempt, const StepRange& range);
  std::optional<StoredStep> step(core::AttemptId attempt, Step step);

  /// Every stored layout: what the records of step() and for_each_step() need. The reference stays valid and
  /// is kept up to date by every call that returns records.
  const LayoutTable& layouts() {
    start();
    return blocks_.layouts();
  }

  using OnStep = std::function<bool(const core::StepRecords&)>;
  /// Every step that has records, ascending, for as long as `on_step` says true. It is read in slices of some
  /// MiB, each in a transaction of its own that is over before `on_step` is called, so a slow receiver holds
  /// nothing up; a step that is written in the meantime is seen either before or after that. The limit counts
  /// reading alone.
  void for_each_step(core::AttemptId attempt, std::optional<Step> from, std::optional<Step> to,
                     const OnStep& on_step);

 private:
  using Clock = Database::Clock;
  void start() { database_.set_deadline(Clock::now() + limit_); }

  std::chrono::milliseconds limit_;
  Database database_;
  BlockReader blocks_;
  Statement attempts_, ranks_, stages_, steps_up_, steps_down_, step_stages_;
};

}  // namespace laggard::store
