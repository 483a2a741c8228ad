// Attempt: the rows to store, what was stored, and the live view.
#include <algorithm>

#include "daemon/base/limits.h"
#include "daemon/base/settings.h"
#include "daemon/core/attempt.h"

namespace laggard::core {
namespace {

// Settled steps kept in memory for records that come a little late or twice.
constexpr std::size_t kRecentSteps = 16;
// Of a step that was settled before this collector started: no news to anybody.
constexpr std::uint64_t kNoEvent = 0;

}  // namespace

bool Attempt::due(const OpenStep& step, UnixMs now, std::int64_t max_wait_ms) {
  return step.dirty && (step.state != StepState::open || now - step.dirty_since >= max_wait_ms);
}

void Attempt::collect(Writes& writes, UnixMs now, std::int64_t max_wait_ms) {
  if (row_dirty_) writes.attempts.push_back(row_);
  row_dirty_ = false;
  if (stages_dirty_)
    writes.stages.emplace_back(row_.id, std::vector(stages_.all().begin(), stages_.all().end()));
  stages_dirty_ = false;
  for (auto& [number, step] : steps_) {
    if (!due(step, now, max_wait_ms)) continue;
    StepRow row{.attempt = row_.id, .view = step_view(step)};
    for (std::uint32_t block = 0; block < step.dirty_blocks.size(); ++block)
      if (step.dirty_blocks[block]) row.blocks.emplace_back(block, step.records.block(block));
    writes.steps.push_back(std::move(row));
    step.handed_out = true;
    for (const Undurable& item : step.undurable) --item.rank->waiting;
    step.handed_undurable.swap(step.undurable);
    step.dirty = false;
    step.dirty_blocks.assign(step.dirty_blocks.size(), false);
  }
  collect_ranks(writes);
}

// A rank's row counts the records that are stored with it, not those that still wait.
void Attempt::collect_ranks(Writes& writes) {
  for (auto& [rank, state] : ranks_) {
    if (!state.dirty) continue;
    state.dirty = state.waiting > 0;
    writes.ranks.push_back(state.row);
    writes.ranks.back().records -= state.waiting;
  }
}

void Attempt::committed() {
  for (auto& [number, step] : steps_) {
    step.handed_out = false;
    step.handed_undurable.clear();
  }
  evict();
}

void Attempt::not_committed() {
  row_dirty_ = stages_dirty_ = true;
  for (auto& [rank, state] : ranks_) state.dirty = true;
  for (auto& [number, step] : steps_) {
    if (!step.handed_out) continue;
    step.handed_out = false;
    step.dirty = true;
    step.dirty_since = 0;  // at once: what a source was to be told of this step must not be taken back
    step.dirty_blocks.assign(step.records.block_count(), true);
    for (const Undurable& item : step.handed_undurable) ++item.rank->waiting;
    step.undurable.insert(step.undurable.end(), step.handed_undurable.begin(), step.handed_undurable.end());
    step.handed_undurable.clear();
  }
}

void Attempt::evict() {
  std::size_t settled = steps_.size() - open_.size();
  for (auto it = steps_.begin(); it != steps_.end() && settled > kRecentSteps;) {
    const OpenStep& step = it->second;
    if (step.state == StepState::open || step.dirty || step.handed_out) {
      ++it;
      continue;
    }
    it = steps_.erase(it);
    --settled;
  }
}

void Attempt::shed(UnixMs now) {
  while (open_.size() > limits::kMaxOpenSteps) become(steps_.at(*open_.begin()), StepState::partial, now);
}

void Attempt::add_undurable(std::vector<std::uint64_t>& lowest) const {
  for (const auto& [number, step] : steps_)
    for (const Undurable& item : step.undurable) {
      std::uint64_t& seq = lowest[static_cast<std::size_t>(item.source)];
      if (seq == 0 || item.seq < seq) seq = item.seq;
    }
}

void Attempt::restore_rank(const RankRow& row) {
  ranks_[row.rank].row = row;
  ranks_[row.rank].had_source = true;
  row_dirty_ = false;
  rank_counts_.reset();
  if (row.settings.empty()) return;
  if (const auto sentence = contradiction(parse_settings(row.settings))) warn(*sentence);
}

void Attempt::restore_step(const Restored::StepInfo& info, UnixMs now) {
  newest_step_ = std::max(newest_step_.value_or(info.step), info.step);
  std::optional<StoredStep> stored = archive_.load(row_.id, info.step);
  if (!stored.has_value()) return;
  OpenStep& step = steps_.emplace(info.step, std::move(*stored->records)).first->second;
  step.first_received = stored->first_received;
  step.settled_at = stored->settled_at;
  for (std::size_t b = 0; b < step.records.block_count(); ++b) {
    const StepRecords::Block block = step.records.block(b);
    for (std::size_t i = 0; i < block->size(); ++i) learn_layout(block->layout_id(i));
  }
  step.state = info.state;
  if (info.state == StepState::open) {
    open_.insert(info.step);
    settle(step, now);
    return;
  }
  newest_settled_ = std::max(newest_settled_.value_or(info.step), info.step);
  note_history(step, kNoEvent);
  evict();
}

// ---- the live view ----

std::shared_ptr<const AttemptView> Attempt::view() {
  if (view_ != nullptr) return view_;
  auto view = std::make_shared<AttemptView>();
  view->id = row_.id;
  view->attempt = row_.attempt;
  view->world_size = row_.world_size;
  view->first_received = row_.first_received;
  view->last_received = row_.last_received;
  view->stalled_after_ms = stalled_ms();
  view->lost_after_ms = options_.lost_after_ms;
  view->silent_after_ms = overdue_ms();
  view->expected = rank_counts().expected;
  add_ranks(*view);
  view->newest_step = newest_step_;
  if (newest_step_.has_value())
    if (const auto it = steps_.find(*newest_step_); it != steps_.end()) view->newest = step_view(it->second);
  view->settled = settled_view_;
  for (const auto& [number, point] : history_) view->history.push_back(point);
  view->steps_by_state = steps_by_state_;
  if (!open_.empty()) view->steps_by_state[StepState::open] = open_.size();
  view->median_wall_ms = median_wall_ms_;
  if (stages_view_ == nullptr) stages_view_ = std::make_shared<const StageTable>(stages_);
  view->stages = stages_view_;
  view->counts = counts_;
  view->lines = lines_;
  view->clashes = clashes_;
  view->warnings = warnings_;
  view_ = view;
  return view_;
}

void Attempt::add_ranks(AttemptView& view) const {
  Rank next = 0;
  std::size_t never_listed = 0;
  const auto list_never_reported = [&](Rank until) {
    for (; next < until && never_listed < limits::kMaxNeverReportedListed; ++next, ++never_listed)
      view.ranks.push_back({.rank = next});
  };
  for (const auto& [rank, state] : ranks_) {
    list_never_reported(std::min(rank, row_.world_size));
    next = rank + 1;
    const RankRow& row = state.row;
    view.ranks.push_back({.rank = rank,
                          .reported = row.records > 0,
                          .last_step = row.last_step.value_or(0),
                          .last_received = row.last_received,
                          .last_wall_ms = row.last_wall_ms,
                          .records = row.records,
                          .ended = row.ended,
                          .finished = row.finished,
                          .live = state.live,
                          .host = row.host});
    if (view.settings.empty()) view.settings = row.settings;
  }
  list_never_reported(row_.world_size);
}

}  // namespace laggard::core
