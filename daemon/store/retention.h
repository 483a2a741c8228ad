// How long what is stored is kept, and what goes next. Old steps lose their ranks' records first and keep
// their summaries; then these go, then whole runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/core/writes.h"
#include "daemon/store/database.h"
#include "daemon/store/step_deletion.h"

namespace laggard::store {

struct RetentionLimits {
  std::int64_t records_ms = 0;    ///< the records of ranks are kept so long after they came; 0: for ever
  std::int64_t summaries_ms = 0;  ///< the same for all else, and for a run after its last record
  std::uint64_t max_bytes = 0;    ///< of the database that may be in use; 0: no limit
};

/// What has to go next: a slice of one attempt, or one of these runs. Whoever knows what is still to be
/// written decides.
struct Upkeep {
  std::optional<core::Expiry> expiry;
  std::vector<core::RunId> runs;  ///< the oldest first
  core::UnixMs runs_before = 0;   ///< none of them has had a record since
  bool more = false;              ///< of a deleted run there is more to delete
  bool stuck = false;             ///< the database is too large, and all that may go has gone
};

/// For the thread and the connection that write.
class Retention {
 public:
  /// A slice, of whole steps, is as much as is deleted between two commits.
  static constexpr std::size_t kSliceSteps = 256;
  static constexpr std::size_t kSliceBytes = std::size_t{8} << 20;
  /// Steps at the end of an attempt that keep everything: what a screen shows, and what a record that comes
  /// late is compared with. For the records of an attempt that nothing came for in a day, fewer do.
  static constexpr std::int64_t kNewestKept = core::kHistoryPoints;
  static constexpr std::int64_t kNewestKeptWhenOver = 16;
  static constexpr std::int64_t kOverAfterMs = std::int64_t{24} * 3'600'000;
  static constexpr std::int64_t kMostRunsNamed = 16;
  /// How often all attempts are looked at. In between only the oldest steps of those are known.
  static constexpr std::int64_t kLookEveryMs = 60'000;
  static constexpr std::int64_t kLookWhenFullMs = 1'000;

  Retention(Database& database, RetentionLimits limits);

  /// Deletes a slice of what belongs to a deleted run and says what has to go next. Ages run to the newest
  /// record or to `now`, whichever is earlier: a database that nobody feeds loses nothing, whatever a clock
  /// says. Throws Error.
  Upkeep next(core::UnixMs now);

 private:
  struct Slice {
    std::optional<Step> end;  // steps below go; nothing: none may
    std::map<core::StepState, std::uint64_t> steps;
    std::optional<core::UnixMs> next_received;  // of the step at `end`
  };
  using ByAge = std::multimap<core::UnixMs, core::AttemptId>;  // by when the oldest step came

  void look(core::UnixMs now);
  core::UnixMs newest_record();
  bool is_full();
  bool records_alone_fill_it();
  bool delete_some();
  std::optional<core::Expiry> take(ByAge& from, bool records, std::int64_t keep_ms, bool full,
                                   core::UnixMs now);
  Slice slice_of(core::AttemptId attempt, Step first, std::int64_t kept, std::optional<core::UnixMs> before);

  Database& database_;
  const RetentionLimits limits_;
  Statement all_records_, all_summaries_, oldest_record_, oldest_summary_, newest_to_go_, walk_, old_runs_,
      deleted_;
  StepDeletion delete_steps_;
  Statement delete_names_, forget_;
  ByAge records_, summaries_;
  std::optional<core::UnixMs> looked_at_;
};

}  // namespace laggard::store
