// One attempt of a run: aligns its ranks by step.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/live_verdict.h"
#include "daemon/core/options.h"
#include "daemon/core/snapshot.h"
#include "daemon/core/step_records.h"
#include "daemon/core/writes.h"

namespace laggard::core {

/// Aligns the records of one attempt. It knows neither sources' protocols nor where steps are stored: the
/// collector that owns it feeds it and takes its dirty rows. Not thread-safe; time is passed in.
class Attempt {
 public:
  /// `events` counts the changes of the whole collector. All references must outlive the attempt.
  Attempt(AttemptRow row, const Options& options, const LayoutTable& layouts, StepArchive& archive,
          std::uint64_t& events);

  enum class Found { nothing, same, other, expired, no_room };
  struct Taken {
    /// Whether the rank's record of this step was known, and says the same; expired: retention has taken what
    /// it would be compared with; no_room: it is not known, and the step's block has reached
    /// limits::kMaxBlockBytes.
    Found found = Found::nothing;
    bool late = false;
  };
  /// Adds the record unless its key is known. `seq` of `source` may be acknowledged once it is stored.
  Taken take(const RecordView& record, LayoutId layout, SourceKey source, std::uint64_t seq, UnixMs now);

  /// Both return false when they say nothing new.
  bool configure(Rank rank, std::uint32_t world_size, std::string settings, UnixMs now);
  bool end(Rank rank, UnixMs now);
  /// What is known of a rank's source: `live` is connected and heard of, `finished` said that all is sent.
  void source_changed(Rank rank, const std::string& host, bool live, bool finished, UnixMs now);
  /// Takes parents and kinds of stages by name; what makes no sense becomes a warning.
  void learn_stages(const std::map<std::string, std::string>& parents,
                    const std::map<std::string, std::string>& kinds, Knowledge from, UnixMs now);
  /// Takes over from the attempt before what no config line has said yet.
  void inherit(const Attempt& earlier, Rank rank);
  void add_clash(Clash clash);

  /// Settles steps that have become overdue.
  void tick(UnixMs now);
  /// Settles the oldest open steps when there are more than limits::kMaxOpenSteps of them.
  void shed(UnixMs now);

  /// Lets go of the records, or of everything, of the steps below these. False when that changes nothing, or
  /// has to wait since one of them is still to be written.
  bool expire(const Expiry& expiry);
  /// For those who look: a record of an expired step came again.
  void warn_of_expired();

  const AttemptRow& row() const { return row_; }
  /// Names of stages that found no place in the table any more.
  std::uint64_t stages_over_limit() const { return stages_over_limit_; }
  bool has_rank(Rank rank) const { return ranks_.contains(rank); }
  std::optional<Step> last_step(Rank rank) const;
  std::string settings(Rank rank) const;
  /// Whether the source of a rank is connected and heard of.
  bool any_live() const { return live_ranks_ > 0; }
  /// Which start of the job its ranks say that they are of; "" when none says it.
  const std::string& launch() const { return launch_; }
  /// Adds what has to be stored now: settled steps, and open ones that have waited `max_wait_ms`.
  void collect(Writes& writes, UnixMs now, std::int64_t max_wait_ms);
  /// What the last collect() gave is durable.
  void committed();
  /// It could not be stored: the next collect() gives it again, as it is then.
  void not_committed();
  /// For every source with a record that is neither durable nor given to collect(): the lowest such sequence
  /// number, at the place of the source's key; 0 for the others.
  void add_undurable(std::vector<std::uint64_t>& lowest) const;

  void restore_rank(const RankRow& row);
  void restore_stage(const Stage& stage) { stages_.restore(stage); }
  /// In ascending order; then restored().
  void restore_step(const StepPoint& point, UnixMs now);
  /// `cells` are the own times that may still be read for live verdicts.
  void restored(std::size_t& cells);
  void restore_counts(std::map<StepState, std::uint64_t> by_state) {
    by_state.erase(StepState::open);  // the open ones are restored, and counted as they are
    steps_by_state_ = std::move(by_state);
  }

  /// What became of items sent to this attempt; for the collector to count.
  DeliveryCounts& counts() {
    touch();
    return counts_;
  }
  /// A source's line counts went from `before` to `after`.
  void add_lines(const LineTotals& before, const LineTotals& after);
  /// A fresh view when something changed since the last call, else the same.
  std::shared_ptr<const AttemptView> view();

 private:
  struct RankState {
    RankRow row;
    bool live = false;
    bool had_source = false;
    bool dirty = false, handed_out = false;                    // the row, but for its settings
    bool settings_dirty = false, settings_handed_out = false;  // they change once, the rest with every step
    std::uint64_t waiting = 0;                                 // records that collect() has not given yet
    std::optional<Step> given_step;                            // the last of those it has
  };
  /// A record that is not stored yet, and what may be acknowledged when it is.
  struct Undurable {
    SourceKey source;
    std::uint64_t seq;
    RankState* rank;  // null when only the ack waits: the record was there already
  };
  struct OpenStep {
    explicit OpenStep(StepRecords all) : records(std::move(all)) {}
    StepRecords records;
    StepState state = StepState::open;
    UnixMs first_received = 0, settled_at = 0, dirty_since = 0;
    std::vector<bool> dirty_blocks;
    bool dirty = false;
    bool handed_out = false;           // given to collect(), not yet committed
    std::vector<Undurable> undurable;  // not handed out
    std::vector<Undurable> handed_undurable;
    mutable std::shared_ptr<const StepView> view;  // null when stale; made when asked for
  };

  OpenStep* find_step(Step step);
  OpenStep& new_step(Step step, UnixMs now);
  RankState& rank_state(Rank rank);
  void mark(RankState& state);
  void count(const RankState& state, bool is_in);
  template <typename Change>
  void recount(RankState& state, const Change& change);
  void set_world_size(std::uint32_t world_size);
  void learn_layout(LayoutId layout);
  void learn_layouts(const StepRecords& records);
  // Derived from ranks_ and kept up to date, so that settling a step need not look at every rank.
  struct RankCounts {
    std::uint32_t expected = 0;          // by world size, and any rank seen beyond it
    std::uint32_t gone = 0;              // once had a source, which is gone, and did not say `end`
    std::vector<Step> ended_last_steps;  // ascending; of the ranks that said `end`
    std::ptrdiff_t ended_before(Step step) const;
  };
  std::uint32_t expected_at(Step step) const;
  bool is_expected_at(Rank rank, Step step) const;
  std::vector<Rank> missing_at(const OpenStep& step, std::size_t most) const;
  bool all_missing_are_gone(const OpenStep& step) const;
  void settle(OpenStep& step, UnixMs now);
  void settle_all(UnixMs now);
  static void outdate(OpenStep& step, UnixMs now);
  void collect_ranks(Writes& writes);
  void become(OpenStep& step, StepState state, UnixMs now);
  void note_history(const OpenStep& step, std::uint64_t event);
  void restore_verdict(std::size_t& cells);
  void add_to_history(const StepPoint& point);
  std::int64_t overdue_ms() const;
  std::int64_t stalled_ms() const;
  void forget_history(std::map<Step, StepPoint>::iterator point);
  std::shared_ptr<const StepView> step_view(const OpenStep& step) const;
  static bool due(const OpenStep& step, UnixMs now, std::int64_t max_wait_ms);
  void add_ranks(AttemptView& view) const;
  void warn(std::string sentence);
  void evict();
  void touch() { view_.reset(); }

  AttemptRow row_;
  std::string launch_;
  bool row_dirty_ = true, row_handed_out_ = false;
  bool expired_dirty_ = false, expired_handed_out_ = false;  // steps to delete
  const Options& options_;
  const LayoutTable& layouts_;
  StepArchive& archive_;
  std::uint64_t& events_;
  StageTable stages_;
  bool stages_dirty_ = false, stages_handed_out_ = false;
  std::uint64_t stages_over_limit_ = 0;
  std::shared_ptr<const StageTable> stages_view_;
  std::set<LayoutId> known_layouts_;

  std::map<Rank, RankState> ranks_;
  bool any_rank_dirty_ = false, any_rank_handed_out_ = false;
  RankCounts rank_counts_;
  std::uint32_t live_ranks_ = 0;
  std::map<Step, OpenStep> steps_;  // open, and the settled ones not evicted yet
  std::set<Step> open_;             // keys of the open ones
  std::optional<Step> newest_step_;
  std::optional<Step> newest_settled_;
  std::shared_ptr<const StepView> settled_view_;
  std::map<Step, StepPoint> history_;
  LiveVerdict verdict_;
  std::vector<double> history_walls_;                  // the valid ones, ascending
  double median_wall_ms_ = kAbsent;                    // of history_walls_; the last known when they are gone
  std::map<StepState, std::uint64_t> steps_by_state_;  // settled states only

  DeliveryCounts counts_;
  std::optional<LineTotals> lines_;
  static constexpr std::size_t kMostWarnings = 32;
  std::vector<Clash> clashes_;  // at most kMostWarnings, as of the warnings
  std::vector<std::string> warnings_;
  std::shared_ptr<const AttemptView> view_;
};

}  // namespace laggard::core
