// All runs and all sources: which attempt an item belongs to, whether it is new, and when it may be
// acknowledged.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "daemon/core/attempt.h"
#include "daemon/core/options.h"
#include "daemon/core/snapshot.h"
#include "daemon/core/writes.h"

namespace laggard::core {

/// What a source says of itself when it connects, or connects again.
struct Hello {
  std::string run;
  Rank rank = 0;
  std::string source_id, host, origin;
  std::uint32_t pid = 0;
  std::int64_t started_unix_ms = 0;
  std::uint32_t attempt_offset = 0;
  bool resumed = false;
  std::map<std::string, std::string> stage_parents, stage_kinds;  ///< from a job profile
};

struct Welcomed {
  SourceKey source = 0;
  std::uint64_t committed_seq = 0;
  std::uint32_t attempt_offset = 0;
};
/// Why a Hello cannot be taken; for people.
struct Refused {
  std::string reason;
};

struct ConfigItem {
  std::uint32_t world_size = 0;
  std::string settings;
};
struct EndItem {};

/// Sequenced items of one source, as they came in one batch.
struct Items {
  std::uint64_t first_seq = 0;
  std::uint64_t dropped_before = 0;
  std::uint32_t attempt = 1;  ///< as numbered by the source
  bool explicit_attempt = false;
  std::size_t first_layout = 0;  ///< the source's number of layouts[0]
  std::vector<Layout> layouts;   ///< used here for the first time
  std::variant<PackedRecords, ConfigItem, EndItem> what;

  std::uint64_t count() const {
    const auto* records = std::get_if<PackedRecords>(&what);
    return records == nullptr ? 1 : records->size();
  }
};

/// What may be told to a source after a commit.
struct AckInfo {
  SourceKey source = 0;
  std::uint64_t committed_seq = 0;
  std::uint32_t attempt_offset = 0;
  DeliveryCounts counts;
};

/// The state of everything, fed by one thread. It knows no socket, SQL, thread or clock.
class Collector {
 public:
  /// `restored` is what the store kept; `archive` must outlive the collector.
  Collector(const Options& options, Restored restored, StepArchive& archive, UnixMs now);

  /// Opens a source or finds it again. `layouts` are all that it has used so far.
  std::variant<Welcomed, Refused> hello(const Hello& hello, const std::vector<Layout>& layouts, UnixMs now);
  enum class Taken { taken, durable_before, gap };
  /// Takes the items that follow on what is known of the source; anything seen before is passed over, and
  /// items behind a gap are left for the source to send again. What was durable before, and a gap, call for
  /// the last ack once more.
  Taken apply(SourceKey source, const Items& items, UnixMs now);
  /// The last ack, for saying it once more.
  const AckInfo& ack_of(SourceKey source) const { return sources_.at(source).told; }
  void heartbeat(SourceKey source, const std::optional<LineTotals>& lines, UnixMs now);
  void bye(SourceKey source, bool finished, UnixMs now);
  /// Closes a run by hand; a later record opens it again. False when there is no such run.
  bool close_run(const std::string& name);
  /// Forgets a run with all its attempts and sources. One that agents still feed is left alone: its next
  /// record would make a new run of it.
  enum class Deleted { deleted, no_such_run, still_fed };
  Deleted delete_run(const std::string& name);
  /// The same for a run that has had no record since `before`; its name when it was deleted.
  std::optional<std::string> delete_run_unless_fed(RunId id, UnixMs before);
  /// See Attempt::expire().
  bool expire(const Expiry& expiry);
  /// False for a source whose run was deleted. It has to say Hello again.
  bool knows(SourceKey source) const { return sources_.contains(source); }
  /// Lets time pass: overdue steps, sources not heard of. Nothing could be heard before `listening_since`.
  void tick(UnixMs now, UnixMs listening_since = 0);

  /// Everything that has to be made durable now. Steps still open are left alone until they have waited
  /// `max_wait_ms`. Between this and committed() or not_committed() any other method may be called; the
  /// writes stay as they are. They must be destroyed on the thread that calls this collector.
  Writes collect(UnixMs now, std::int64_t max_wait_ms);
  /// The last collect() is durable. Returns what may be acknowledged now, one for each source whose committed
  /// number grew.
  std::vector<AckInfo> committed();
  /// The last collect() could not be stored: the next one gives it again.
  void not_committed();

  std::shared_ptr<const Snapshot> snapshot(UnixMs now, const IngestCounters& counters,
                                           const StorageState& storage = {});

 private:
  /// What became of items first..last of a source; of several only when nothing else is to be said of them.
  struct Outcome {
    std::uint64_t first = 0, last = 0;
    std::uint64_t DeliveryCounts::*what = nullptr;
    bool late = false;
    std::uint32_t invalid_values = 0;
    void add_to(DeliveryCounts& counts, std::uint64_t items) const;
  };
  struct Source {
    SourceRow row;  // its counts and its offset are those of committed_seq: they never run ahead of it
    std::uint32_t attempt_offset = 0;                                 // for the next item
    std::deque<Outcome> outcomes;                                     // of items not yet durable
    std::deque<std::pair<std::uint64_t, std::uint32_t>> new_offsets;  // first item of each, likewise
    LineTotals lines;
    std::uint64_t received_seq = 0;
    AckInfo told;    // what the last commit made true: all that may be said to the agent
    AckInfo handed;  // what the commit under way will make true
    std::vector<SeqRange> told_lost, handed_lost;  // likewise; what readers are shown is told_lost
    UnixMs last_heard = 0;
    bool live = false;
    bool heard = false;       // since this collector started
    bool dirty = false;       // something to store or to acknowledge
    bool handed_out = false;  // given to collect(), not yet committed
    bool resumed = false;  // it went on in the middle of its file, or was known before this collector started
    bool placed = false;   // its attempt_offset is settled
    std::optional<Step> newest_step;  // of the attempt it writes to, as far as this source has sent it
    bool newest_from_expired =
        true;  // newest_step is of records that could not be compared, or there is none
    std::vector<LayoutId> layouts;
    std::map<std::string, std::string> stage_parents, stage_kinds;
  };
  struct Run {
    RunRow row;
    bool dirty = false, handed_out = false;
    std::map<std::uint32_t, std::unique_ptr<Attempt>> attempts;
    std::unordered_map<Rank, std::vector<SourceKey>> sources;  // in the order they came
    std::set<SourceKey> lossy;                                 // those with a told_lost
    std::shared_ptr<const RunView> view;                       // null when a run's own facts changed
  };

  Run* find_or_add_run(const std::string& name, UnixMs now);
  Attempt& attempt_of(Run& run, std::uint32_t number, UnixMs now);
  Attempt* attempt_written(const Source& source);
  Attempt& write_to(Run& run, Source& source, std::uint32_t number, UnixMs now);

  static std::uint32_t newest_attempt_with(const Run& run, Rank rank);
  static bool could_join(const Attempt& attempt, Rank rank, std::uint32_t world_size);
  static std::uint32_t next_attempt(const Run& run, Rank rank, std::uint32_t least, std::uint32_t world_size,
                                    const std::string& launch);
  static Clash clash_of(const Source& first, const Source& second);
  const Source* other_live_source(Run& run, const Source& source) const;
  std::uint32_t first_attempt(Run& run, const Source& source, const Items& items, UnixMs now);
  void place(Run& run, Source& source, const Items& items, UnixMs now);

  std::optional<LayoutId> intern(const Layout& layout);
  bool learn_layouts(Source& source, const Items& items);
  void take_news(Source& source, Attempt& attempt, const Items& items, UnixMs now);
  static void note(Source& source, Attempt& attempt, const Outcome& outcome);
  void settle_source(Source& source, std::uint64_t durable);
  static void lose(Source& source, SeqRange range);
  void show_losses(Source& source);
  static bool continues(const Run& run, const SourceRow& earlier, const Items& items);
  static void begin_at(Source& source, std::uint32_t offset);
  void take_records(Run& run, Source& source, const Items& items, const PackedRecords& records,
                    std::uint64_t skip, UnixMs now);
  void take_record(Run& run, Source& source, std::uint32_t local_attempt, const RecordView& record,
                   LayoutId layout, std::uint64_t seq, UnixMs now);
  static bool steps_back(const Run& run, const Source& source, const Attempt& attempt,
                         const RecordView& record);
  static bool is_conflict(const Source& source, const Attempt& attempt, const RecordView& record);

  void replace_earlier(Run& run, const Source& source, UnixMs now);
  void heard(Source& source, UnixMs now);
  void went(Source& source, bool finished, UnixMs now);
  bool is_live(const Run& run) const;
  void forget_oldest_source(Run& run, Rank rank);
  void inherit(const Source& from, Source& to);
  void restore_source(SourceRow row, UnixMs now);
  std::shared_ptr<const RunView> view_of(Run& run) const;

  Options options_;
  StepArchive& archive_;
  LayoutTable layouts_;
  std::size_t handed_layouts_ = 0, stored_layouts_ = 0;
  std::map<RunId, Run> runs_;
  std::map<std::string, RunId> run_by_name_;
  std::unordered_map<SourceKey, Source> sources_;
  std::unordered_map<std::string, SourceKey> source_by_id_;
  Deletions deleted_, handed_deleted_;  // to be stored; in the commit under way
  RunId next_run_ = 1;
  AttemptId next_attempt_id_ = 1;
  SourceKey next_source_ = 1;
  std::uint64_t events_;
};

}  // namespace laggard::core
