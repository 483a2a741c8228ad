// What the engine asks the store to make durable, and what it gets back at start.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/breakdown.h"
#include "daemon/core/model.h"
#include "daemon/core/snapshot.h"
#include "daemon/core/step_records.h"

namespace laggard::core {

struct RunRow {
  RunId id = 0;
  std::string name;
  UnixMs created = 0;
  bool closed = false;
};

struct AttemptRow {
  AttemptId id = 0;
  RunId run = 0;
  std::uint32_t attempt = 1;
  std::uint32_t world_size = 0;
  UnixMs first_received = 0, last_received = 0;
  /// Retention has taken the records, and the summaries too, of the steps below; nothing: of none.
  std::optional<Step> records_from, summaries_from;
};

/// A rank of an attempt: its settings (the config line as a JSON object, "" when none came) and last signs.
struct RankRow {
  AttemptId attempt = 0;
  Rank rank = 0;
  std::string settings;
  std::string host;
  bool ended = false;     ///< said `end`
  bool finished = false;  ///< its newest source said that nothing more will come
  std::optional<Step> last_step;
  UnixMs last_received = 0;
  std::uint64_t records = 0;
  double last_wall_ms = kAbsent;
};

/// One agent incarnation feeding one rank.
struct SourceRow {
  SourceKey key = 0;
  RunId run = 0;
  Rank rank = 0;
  std::string id, host, origin;
  std::uint32_t pid = 0;
  std::int64_t started_unix_ms = 0;
  std::uint64_t committed_seq = 0;
  std::uint32_t base_offset = 0;     ///< what its file's own attempt numbers are raised by from its start
  std::uint32_t attempt_offset = 0;  ///< the same now: base_offset and a step for every rewind
  std::uint32_t attempt = 0;         ///< the newest attempt it has written to; 0: none yet
  bool gone = false;                 ///< said Bye, or was replaced
  DeliveryCounts counts;
  std::vector<SeqRange> lost;  ///< of counts.dropped, the newest limits::kMaxLostRanges ranges
};

/// One step as it stands. A step written again replaces what was stored of it.
struct StepRow {
  AttemptId attempt = 0;
  std::shared_ptr<const StepView> view;
  std::vector<std::pair<std::uint32_t, StepRecords::Block>> blocks;  ///< those that changed
};

/// Steps of an attempt below these go, or may go: their records, or all that is stored of them.
struct Expiry {
  AttemptId attempt = 0;
  std::optional<Step> records_from, summaries_from;
  std::map<StepState, std::uint64_t> steps;  ///< those whose summaries go
};

/// Rows that go, none of which is written in the same transaction. A run goes with all that belongs to it.
struct Deletions {
  std::vector<RunId> runs;
  std::vector<SourceKey> sources;
  bool empty() const { return runs.empty() && sources.empty(); }
};

/// Everything of one transaction, as it was when it was collected: another thread may store it while the
/// collector goes on. `sources` carry the committed sequence numbers that this transaction makes true.
struct Writes {
  std::vector<RunRow> runs;
  std::vector<AttemptRow> attempts;
  std::vector<RankRow> ranks;
  std::vector<std::pair<AttemptId, std::vector<Stage>>> stages;  ///< all stages of the attempts that changed
  std::vector<std::pair<LayoutId, const Layout*>> layouts;       ///< new ones; they stay where they are
  std::vector<StepRow> steps;
  std::vector<SourceRow> sources;
  std::vector<Expiry> expired;
  Deletions deleted;
  bool empty() const {
    return runs.empty() && attempts.empty() && ranks.empty() && stages.empty() && layouts.empty() &&
           steps.empty() && sources.empty() && expired.empty() && deleted.empty();
  }
};

/// What was stored, as far as the engine needs it to go on: all rows but the finished steps.
struct Restored {
  std::string collector_id;  ///< names this database, made when it was created
  std::vector<RunRow> runs;
  std::vector<AttemptRow> attempts;
  std::vector<RankRow> ranks;
  std::vector<std::pair<AttemptId, std::vector<Stage>>> stages;
  std::vector<Layout> layouts;  ///< by id
  std::vector<SourceRow> sources;
  std::vector<std::pair<AttemptId, StepPoint>>
      steps;  ///< open ones, and each attempt's newest kHistoryPoints
  std::vector<std::pair<AttemptId, std::map<StepState, std::uint64_t>>> steps_by_state;
  AttemptId last_deleted_attempt = 0;  ///< the largest of those whose steps are still being deleted
};

/// A step as it was stored.
struct StoredStep {
  std::unique_ptr<StepRecords> records;
  StepState state = StepState::open;
  UnixMs first_received = 0, settled_at = 0;
};

/// Where steps that are no longer in memory come from.
class StepArchive {
 public:
  virtual ~StepArchive() = default;
  /// A stored step; nothing when there is none, or its records are kept no longer. Throws Error when what is
  /// stored is damaged.
  virtual std::optional<StoredStep> load(AttemptId attempt, Step step) = 0;
};

}  // namespace laggard::core
