// What the live views see: an immutable picture of all runs, published by the engine and read by anybody.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/breakdown.h"
#include "daemon/core/model.h"
#include "daemon/core/verdict.h"

namespace laggard::core {

/// A step with its state. `missing` are the expected ranks without a record.
struct StepView {
  StepBreakdown breakdown;
  StepState state = StepState::open;
  std::uint32_t expected = 0;
  std::vector<Rank> missing;  ///< at most kMissingListed of them, ascending
  std::uint32_t missing_count = 0;
  UnixMs first_received = 0;
  UnixMs settled_at = 0;  ///< when it became complete or partial; 0 while it is open
};
inline constexpr std::size_t kMissingListed = 64;

/// One point of the history line, and what an event says.
struct StepPoint {
  Step step = 0;
  StepState state = StepState::open;
  std::uint32_t present = 0, expected = 0;
  double wall_max_ms = kAbsent;
  std::optional<Rank> slowest;
  bool near_tie = false;  ///< the walls are too close together for `slowest` to mean anything
  std::optional<Rank> culprit;
  std::uint64_t event = 0;  ///< number of the change that made it so, counted over the whole collector and
                            ///< from its start time; 0 for a step that was settled before that
};

/// Of a step as it stands.
StepPoint point_of(const StepView& view, std::uint64_t event);

struct RankView {
  Rank rank = 0;
  bool reported = false;  ///< false: expected from the world size, never seen
  Step last_step = 0;     ///< meaningless unless reported
  UnixMs last_received = 0;
  double last_wall_ms = kAbsent;
  std::uint64_t records = 0;
  bool ended = false;     ///< it said `end`
  bool finished = false;  ///< its source said that nothing more will come
  bool live = false;      ///< its source is connected and not silent
  std::string host;
};

/// Counts of what became of what the sources of an attempt sent. sent = stored + duplicate + conflict +
/// rejected + dropped, exactly.
struct DeliveryCounts {
  std::uint64_t stored = 0;     ///< items made durable for the first time, late ones included
  std::uint64_t duplicate = 0;  ///< same key, same content
  std::uint64_t conflict = 0;   ///< same source, newest step again, other content: the first stays
  std::uint64_t late = 0;       ///< of the stored: a step not seen yet, lower than the newest
  std::uint64_t rejected = 0;   ///< could not be taken (limits)
  std::uint64_t dropped = 0;    ///< lost by the agent, as it says itself
  std::uint64_t invalid_values = 0;
  DeliveryCounts& operator+=(const DeliveryCounts& other);
};

/// Sequence numbers first..last of a source.
struct SeqRange {
  std::uint64_t first = 0, last = 0;
  bool operator==(const SeqRange&) const = default;
};

/// A source that lost items before it could deliver them, as it says itself.
struct Losses {
  Rank rank = 0;
  std::string host, origin;
  std::uint64_t dropped = 0;
  std::vector<SeqRange> ranges;  ///< the newest limits::kMaxLostRanges, ascending
};

/// Sources that lost items, of which only the number and the sum are told.
struct UnlistedLosses {
  std::uint64_t sources = 0, dropped = 0;
};

/// What the agents say of the lines they have read.
struct LineTotals {
  std::uint64_t accepted = 0, foreign = 0, rejected = 0, pending_tail = 0;
  bool operator==(const LineTotals&) const = default;
};

/// Two sources that sent the same rank at the same time; the second one's records went to an attempt of their
/// own.
struct Clash {
  struct Claim {
    std::string host, origin;
  };
  Rank rank = 0;
  Claim first, second;
};

struct AttemptView {
  AttemptId id = 0;
  std::uint32_t attempt = 1;
  std::uint32_t world_size = 0;  ///< 0: no record said it; then the ranks seen are expected
  UnixMs first_received = 0, last_received = 0;
  /// Retention has taken the records, and the summaries too, of the steps below; nothing: of none.
  std::optional<Step> records_from, summaries_from;
  std::uint32_t expected = 0;               ///< by world size, and any rank seen beyond it
  std::vector<RankView> ranks;              ///< ascending
  std::optional<Step> newest_step;          ///< the largest step any rank has sent
  std::shared_ptr<const StepView> newest;   ///< that step as it stands
  std::shared_ptr<const StepView> settled;  ///< the newest complete or partial one: what a screen shows
  std::vector<StepPoint> history;           ///< the newest kHistoryPoints settled steps, by step
  std::map<StepState, std::uint64_t> steps_by_state;
  std::shared_ptr<const VerdictView> verdict;  ///< on the newest steps
  double median_wall_ms = kAbsent;             ///< of the history's walls
  std::int64_t silent_after_ms = 0;            ///< a rank behind the newest step is silent after this
  std::int64_t stalled_after_ms = 0, lost_after_ms = 0;  ///< without any record
  std::shared_ptr<const StageTable> stages;
  std::string settings;  ///< JSON object of the lowest reporting rank; "" without one
  DeliveryCounts counts;
  std::optional<LineTotals> lines;  ///< nothing until an agent has said, since the collector started
  std::vector<Clash> clashes;
  std::vector<std::string> warnings;  ///< e.g. settings that contradict themselves
};
inline constexpr std::size_t kHistoryPoints = 256;

struct RunView {
  RunId id = 0;
  std::string name;
  std::vector<std::uint32_t> attempts;        ///< ascending
  std::shared_ptr<const AttemptView> newest;  ///< the attempt with the highest number
  std::map<std::uint32_t, std::shared_ptr<const AttemptView>> live_attempts;  ///< every one, by its number
  bool closed = false;                                                        ///< closed by hand
  /// Of the first limits::kMaxLossySources sources that lost something, and of the others. What is here is
  /// durable: a restart shows the same.
  std::vector<Losses> losses;
  UnlistedLosses unlisted_losses;
};

/// Losses and refusals that belong to no attempt, by name ("messages_malformed", ...).
using IngestCounters = std::map<std::string, std::uint64_t>;

/// How storing goes. While the database cannot be written nothing is acknowledged.
struct StorageState {
  std::string problem;          ///< of the last commit; "" when it worked
  std::uint64_t unstored = 0;   ///< items that were taken and are not durable yet
  std::int64_t waiting_ms = 0;  ///< for how long the oldest of them may have been waiting
};

struct Snapshot {
  UnixMs taken_at = 0;
  StorageState storage;
  std::uint64_t event = 0;                           ///< the newest StepPoint::event
  std::vector<std::shared_ptr<const RunView>> runs;  ///< by name
  IngestCounters ingest;
};

/// When a snapshot is looked at: ages run to `now`; silence is judged at `heard_until`, for as long as the
/// collector has been taking records. One that takes none, as with a full disk, hears nobody.
struct Moment {
  UnixMs now = 0, heard_until = 0;
};
Moment moment_of(const Snapshot& snapshot, UnixMs now);

/// True when the rank should have sent by now: expected, not ended, behind the newest step (or never seen)
/// and without a record for longer than the attempt's limit.
bool is_silent(const AttemptView& attempt, const RankView& rank, UnixMs now);

/// How many ranks have sent a record and are not silent at `now`.
std::uint32_t reporting_at(const AttemptView& attempt, UnixMs now);

/// The state at `now`: views are immutable, time goes on.
RunState state_at(const AttemptView& attempt, bool closed, UnixMs now);

}  // namespace laggard::core
