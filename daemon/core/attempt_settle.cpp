// Attempt: which ranks a step waits for, and when it stops waiting.
#include <algorithm>

#include "daemon/core/attempt.h"

namespace laggard::core {
namespace {

constexpr Step kBeforeAllSteps = -1;

std::int64_t ms_of(double ms) { return static_cast<std::int64_t>(std::clamp(ms, 0.0, 1e15)); }

}  // namespace

std::ptrdiff_t Attempt::RankCounts::ended_before(Step step) const {
  return std::lower_bound(ended_last_steps.begin(), ended_last_steps.end(), step) - ended_last_steps.begin();
}

// Adds what this rank says to the counts, or takes it out again.
void Attempt::count(const RankState& state, bool is_in) {
  std::vector<Step>& ended = rank_counts_.ended_last_steps;
  if (state.row.ended) {
    const Step last = state.row.last_step.value_or(kBeforeAllSteps);
    if (is_in)
      ended.insert(std::upper_bound(ended.begin(), ended.end(), last), last);
    else
      ended.erase(std::lower_bound(ended.begin(), ended.end(), last));
  } else if (state.had_source && !state.live) {
    rank_counts_.gone += is_in ? 1U : -1U;
  }
}

void Attempt::set_world_size(std::uint32_t world_size) {
  row_.world_size = world_size;
  rank_counts_.expected =
      world_size + static_cast<std::uint32_t>(std::distance(ranks_.lower_bound(world_size), ranks_.end()));
}

bool Attempt::is_expected_at(Rank rank, Step step) const {
  const auto it = ranks_.find(rank);
  if (it == ranks_.end()) return rank < row_.world_size;
  const RankRow& row = it->second.row;
  return !(row.ended && row.last_step.value_or(kBeforeAllSteps) < step);
}

std::uint32_t Attempt::expected_at(Step step) const {
  return rank_counts_.expected - static_cast<std::uint32_t>(rank_counts_.ended_before(step));
}

std::vector<Rank> Attempt::missing_at(const OpenStep& step, std::size_t most) const {
  std::vector<Rank> missing;
  const auto consider = [&](Rank rank) {
    if (missing.size() < most && !step.records.contains(rank) && is_expected_at(rank, step.records.step()))
      missing.push_back(rank);
  };
  for (Rank rank = 0; rank < row_.world_size && missing.size() < most; ++rank) consider(rank);
  for (auto it = ranks_.lower_bound(row_.world_size); it != ranks_.end(); ++it) consider(it->first);
  return missing;
}

bool Attempt::all_missing_are_gone(const OpenStep& step) const {
  const Step number = step.records.step();
  const auto ended_later =
      rank_counts_.ended_last_steps.size() - static_cast<std::size_t>(rank_counts_.ended_before(number));
  // At most so many of the missing can be gone: usually that is answer enough.
  if (step.records.size() + rank_counts_.gone + ended_later < expected_at(number)) return false;
  std::uint32_t gone = 0;
  for (const auto& [rank, state] : ranks_)
    if (state.had_source && !state.live && !step.records.contains(rank) && is_expected_at(rank, number))
      ++gone;
  return gone > 0 && step.records.size() + gone == expected_at(number);
}

std::int64_t Attempt::overdue_ms() const {
  const double by_wall = is_valid(median_wall_ms_) ? options_.overdue_factor * median_wall_ms_ : 0;
  return std::max(options_.overdue_after_ms, ms_of(by_wall));
}

void Attempt::settle(OpenStep& step, UnixMs now) {
  const Step number = step.records.step();
  if (step.view != nullptr && step.view->expected != expected_at(number)) outdate(step, now);
  const bool full = step.records.size() >= expected_at(number);
  // Without a config nobody knows how many ranks there are: a step is taken for whole when every rank seen
  // so far has it and has gone on.
  const bool known =
      row_.world_size != 0 || (newest_step_.has_value() && number < *newest_step_) || !any_live();
  if (full && known) {
    if (step.state == StepState::open) become(step, StepState::complete, now);
    if (step.state == StepState::partial) become(step, StepState::late_completed, now);
    if (step.view == nullptr && step.state != StepState::open) note_history(step, ++events_);
    return;
  }
  const bool old = now - step.first_received > overdue_ms();
  // Two steps further, without adding to what may be the largest number there is.
  const bool overtaken = newest_step_.has_value() && *newest_step_ > number && *newest_step_ - 1 > number;
  if (!full && ((old && (overtaken || !any_live())) || all_missing_are_gone(step))) {
    if (step.state != StepState::partial)
      become(step, StepState::partial, now);
    else if (step.view == nullptr)
      note_history(step, ++events_);
    return;
  }
  if (step.state != StepState::open && step.state != StepState::partial) become(step, StepState::open, now);
}

// The step's figures have changed although no record came.
void Attempt::outdate(OpenStep& step, UnixMs now) {
  step.view.reset();
  if (!step.dirty) step.dirty_since = now;
  step.dirty = true;
}

void Attempt::settle_all(UnixMs now) {
  // A rank more or less changes what steps wait for; only those in memory can still change.
  std::vector<Step> numbers;
  for (const auto& [number, step] : steps_) numbers.push_back(number);
  for (const Step number : numbers) settle(steps_.at(number), now);
}

void Attempt::become(OpenStep& step, StepState state, UnixMs now) {
  touch();
  const Step number = step.records.step();
  if (step.state != StepState::open && steps_by_state_[step.state] > 0) --steps_by_state_[step.state];
  step.state = state;
  outdate(step, now);
  if (state == StepState::open) {
    step.settled_at = 0;
    open_.insert(number);
    if (const auto it = history_.find(number); it != history_.end()) forget_history(it);
    verdict_.drop(number);
    return;
  }
  open_.erase(number);
  step.settled_at = now;
  ++steps_by_state_[state];
  newest_settled_ = std::max(newest_settled_.value_or(number), number);
  note_history(step, ++events_);
}

void Attempt::note_history(const OpenStep& step, std::uint64_t event) {
  const std::shared_ptr<const StepView> view = step_view(step);
  if (newest_settled_ == step.records.step()) settled_view_ = view;
  add_to_history(point_of(*view, event));
  verdict_.put(*view);
}

void Attempt::add_to_history(const StepPoint& point) {
  if (const auto it = history_.find(point.step); it != history_.end()) forget_history(it);
  history_.emplace(point.step, point);
  std::vector<double>& walls = history_walls_;
  if (is_valid(point.wall_max_ms))
    walls.insert(std::upper_bound(walls.begin(), walls.end(), point.wall_max_ms), point.wall_max_ms);
  if (history_.size() > kHistoryPoints) forget_history(history_.begin());
  if (!walls.empty()) median_wall_ms_ = walls[walls.size() / 2];
}

void Attempt::forget_history(std::map<Step, StepPoint>::iterator point) {
  const double wall = point->second.wall_max_ms;
  if (is_valid(wall))
    history_walls_.erase(std::lower_bound(history_walls_.begin(), history_walls_.end(), wall));
  history_.erase(point);
}

void Attempt::tick(UnixMs now) {
  for (auto it = open_.begin(); it != open_.end();) {
    OpenStep& step = steps_.at(*it++);  // settle() may take it out of open_
    settle(step, now);
  }
  if (!any_live() && now - row_.last_received > options_.lost_after_ms) verdict_.rest(stages_);
}

std::shared_ptr<const StepView> Attempt::step_view(const OpenStep& step) const {
  if (step.view != nullptr) return step.view;
  auto view = std::make_shared<StepView>();
  view->breakdown = break_down(step.records, layouts_, stages_);
  view->state = step.state;
  view->expected = expected_at(step.records.step());
  const auto present = static_cast<std::uint32_t>(step.records.size());
  if (view->expected > present) {
    view->missing = missing_at(step, kMissingListed);
    view->missing_count = view->expected - present;
  }
  view->first_received = step.first_received;
  view->settled_at = step.settled_at;
  step.view = view;
  return view;
}

std::int64_t Attempt::stalled_ms() const {
  const double by_wall = is_valid(median_wall_ms_) ? kStalledWalls * median_wall_ms_ : 0;
  return std::max(options_.stalled_after_ms, ms_of(by_wall));
}

}  // namespace laggard::core
