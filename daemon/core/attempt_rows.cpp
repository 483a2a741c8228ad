// Attempt: the rows to store, what was stored, and the live view.
#include <algorithm>
#include <utility>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/settings.h"
#include "daemon/core/attempt.h"

namespace laggard::core {
namespace {

// Settled steps kept in memory for records that come a little late or twice.
constexpr std::size_t kRecentSteps = 16;

}  // namespace

bool Attempt::due(const OpenStep& step, UnixMs now, std::int64_t max_wait_ms) {
  return step.dirty && (step.state != StepState::open || now - step.dirty_since >= max_wait_ms);
}

void Attempt::collect(Writes& writes, UnixMs now, std::int64_t max_wait_ms) {
  if (row_dirty_) writes.attempts.push_back(row_);
  row_handed_out_ = std::exchange(row_dirty_, false);
  if (expired_dirty_) writes.expired.push_back({row_.id, row_.records_from, row_.summaries_from});
  expired_handed_out_ = std::exchange(expired_dirty_, false);
  if (stages_dirty_)
    writes.stages.emplace_back(row_.id, std::vector(stages_.all().begin(), stages_.all().end()));
  stages_handed_out_ = std::exchange(stages_dirty_, false);
  for (auto& [number, step] : steps_) {
    if (!due(step, now, max_wait_ms)) continue;
    StepRow row{.attempt = row_.id, .view = step_view(step)};
    for (std::uint32_t block = 0; block < step.dirty_blocks.size(); ++block)
      if (step.dirty_blocks[block]) row.blocks.emplace_back(block, step.records.block(block));
    writes.steps.push_back(std::move(row));
    step.handed_out = true;
    for (const Undurable& item : step.undurable) {
      if (item.rank == nullptr) continue;
      --item.rank->waiting;
      mark(*item.rank);
      item.rank->given_step = std::max(item.rank->given_step.value_or(number), number);
    }
    step.handed_undurable.swap(step.undurable);
    step.dirty = false;
    step.dirty_blocks.assign(step.dirty_blocks.size(), false);
  }
  collect_ranks(writes);
}

// A rank's row counts the records that are stored with it, not those that still wait.
void Attempt::collect_ranks(Writes& writes) {
  any_rank_handed_out_ = std::exchange(any_rank_dirty_, false);
  if (!any_rank_handed_out_) return;
  for (auto& [rank, state] : ranks_) {
    if (!state.dirty) continue;
    state.handed_out = true;
    state.dirty = false;
    RankRow& row = writes.ranks.emplace_back(state.row);
    row.records -= state.waiting;
    row.last_step = state.given_step;
    state.settings_handed_out = std::exchange(state.settings_dirty, false);
    if (!state.settings_handed_out) row.settings.clear();
  }
}

void Attempt::committed() {
  for (auto& [number, step] : steps_) {
    step.handed_out = false;
    step.handed_undurable.clear();
  }
  if (std::exchange(any_rank_handed_out_, false))
    for (auto& [rank, state] : ranks_) state.handed_out = state.settings_handed_out = false;
  evict();
}

void Attempt::not_committed() {
  row_dirty_ = row_dirty_ || row_handed_out_;
  expired_dirty_ = expired_dirty_ || expired_handed_out_;
  stages_dirty_ = stages_dirty_ || stages_handed_out_;
  if (std::exchange(any_rank_handed_out_, false))
    for (auto& [rank, state] : ranks_) {
      if (std::exchange(state.handed_out, false)) mark(state);
      state.settings_dirty = std::exchange(state.settings_handed_out, false) || state.settings_dirty;
    }
  for (auto& [number, step] : steps_) {
    if (!step.handed_out) continue;
    step.handed_out = false;
    step.dirty = true;
    step.dirty_since = 0;  // at once: what a source was to be told of this step must not be taken back
    step.dirty_blocks.assign(step.records.block_count(), true);
    for (const Undurable& item : step.handed_undurable)
      if (item.rank != nullptr) ++item.rank->waiting;
    step.undurable.insert(step.undurable.end(), step.handed_undurable.begin(), step.handed_undurable.end());
    step.handed_undurable.clear();
  }
}

void Attempt::evict() {
  // An attempt that nobody feeds keeps none: there may be thousands of them.
  const std::size_t kept = any_live() ? kRecentSteps : 0;
  std::size_t settled = steps_.size() - open_.size();
  for (auto it = steps_.begin(); it != steps_.end() && settled > kept;) {
    const OpenStep& step = it->second;
    if (step.state == StepState::open || step.dirty || step.handed_out) {
      ++it;
      continue;
    }
    it = steps_.erase(it);
    --settled;
  }
}

bool Attempt::expire(const Expiry& expiry) {
  const auto raise = [](std::optional<Step>& from, std::optional<Step> to) {
    if (to <= from) return false;
    from = to;
    return true;
  };
  const std::optional<Step> records_from = std::max(expiry.records_from, expiry.summaries_from);
  if (!records_from.has_value()) return false;
  // A step that is written again after its records went would be a step of the ranks that came last.
  const auto end = steps_.lower_bound(*records_from);
  const bool held = std::any_of(steps_.begin(), end, [](const auto& entry) {
    const OpenStep& step = entry.second;
    return step.state == StepState::open || step.dirty || step.handed_out;
  });
  if (held) return false;
  const bool records = raise(row_.records_from, records_from);
  const bool summaries = raise(row_.summaries_from, expiry.summaries_from);
  if (!records && !summaries) return false;
  steps_.erase(steps_.begin(), end);
  if (summaries)
    for (const auto& [state, n] : expiry.steps) steps_by_state_[state] -= std::min(steps_by_state_[state], n);
  row_dirty_ = expired_dirty_ = true;
  touch();
  return true;
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
  RankState& state = rank_state(row.rank);
  state.row = row;
  state.had_source = true;
  state.given_step = row.last_step;
  count(state, true);
  row_dirty_ = false;
  const Settings settings = parse_settings(row.settings);
  verdict_.learn(row.rank, settings, row.host);
  if (launch_.empty()) launch_ = settings.launch;
  if (const auto sentence = contradiction(settings)) warn(*sentence);
}

void Attempt::restore_step(const StepPoint& point, UnixMs now) {
  newest_step_ = std::max(newest_step_.value_or(point.step), point.step);
  if (point.state != StepState::open) {
    newest_settled_ = point.step;
    add_to_history(point);
  } else if (OpenStep* step = find_step(point.step)) {
    learn_layouts(step->records);
    settle(*step, now);
  }
}

void Attempt::restored(std::size_t& cells) {
  if (!newest_settled_.has_value()) return;
  if (settled_view_ == nullptr)
    if (const OpenStep* step = find_step(*newest_settled_)) {
      learn_layouts(step->records);
      settled_view_ = step_view(*step);
    }
  restore_verdict(cells);
}

// What the live verdict was over before the collector was stopped, as far as the history reaches.
void Attempt::restore_verdict(std::size_t& cells) {
  const std::size_t ranks = std::max<std::size_t>(rank_counts_.expected, 1);
  const std::size_t wanted = any_live() ? std::min(history_.size(), cells / ranks) : 0;
  cells -= wanted * ranks;
  std::uint64_t settled = 0;
  for (const auto& [state, n] : steps_by_state_) settled += n;
  verdict_.came_before(settled - std::min<std::uint64_t>(settled, wanted));
  if (!any_live()) return verdict_.was_over(*newest_settled_);
  for (auto point = std::prev(history_.end(), static_cast<std::ptrdiff_t>(wanted)); point != history_.end();
       ++point) {
    std::optional<StoredStep> stored;
    try {
      stored = archive_.load(row_.id, point->first);
    } catch (const Error&) {
      // Damaged: those who ask for the step are told so. The verdict does without it.
    }
    if (!stored.has_value()) continue;
    learn_layouts(*stored->records);
    StepView view{.breakdown = break_down(*stored->records, layouts_, stages_), .state = stored->state};
    verdict_.put(view);
  }
}

void Attempt::learn_layouts(const StepRecords& records) {
  for (std::size_t b = 0; b < records.block_count(); ++b) {
    const StepRecords::Block block = records.block(b);
    for (std::size_t i = 0; i < block->size(); ++i) learn_layout(block->layout_id(i));
  }
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
  view->records_from = row_.records_from;
  view->summaries_from = row_.summaries_from;
  view->stalled_after_ms = stalled_ms();
  view->lost_after_ms = options_.lost_after_ms;
  view->silent_after_ms = overdue_ms();
  view->expected = rank_counts_.expected;
  add_ranks(*view);
  view->newest_step = newest_step_;
  if (newest_step_.has_value()) {
    const auto it = steps_.find(*newest_step_);
    if (it != steps_.end())
      view->newest = step_view(it->second);
    else if (newest_settled_ == newest_step_)
      view->newest = settled_view_;
  }
  view->settled = settled_view_;
  view->verdict = verdict_.view(stages_);
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
