#include "daemon/core/attempt.h"

#include <algorithm>

#include "daemon/base/limits.h"
#include "daemon/base/settings.h"

namespace laggard::core {
namespace {

// Settled steps kept in memory for records that come a little late or twice.
constexpr std::size_t kRecentSteps = 16;
constexpr Step kBeforeAllSteps = -1;
// Of a step that was settled before this collector started: no news to anybody.
constexpr std::uint64_t kNoEvent = 0;

}  // namespace

Attempt::Attempt(AttemptRow row, const Options& options, const LayoutTable& layouts, StepArchive& archive,
                 std::uint64_t& events)
    : row_(row), options_(options), layouts_(layouts), archive_(archive), events_(events) {}

// ---- records ----

Attempt::OpenStep* Attempt::find_step(Step step, UnixMs now) {
  const auto it = steps_.find(step);
  if (it != steps_.end()) return &it->second;
  if (!newest_step_.has_value() || step > *newest_step_) return nullptr;
  std::unique_ptr<StepRecords> stored = archive_.load(row_.id, step);
  if (stored == nullptr) return nullptr;
  OpenStep& loaded = steps_.emplace(step, step).first->second;
  loaded.records = std::move(*stored);
  loaded.first_received = now;
  loaded.state = loaded.records.size() >= expected_at(step) ? StepState::complete : StepState::partial;
  loaded.settled_at = now;
  return &loaded;
}

Attempt::Found Attempt::look_up(const RecordView& record, UnixMs now) {
  const OpenStep* step = find_step(record.step, now);
  if (step == nullptr) return Found::nothing;
  const auto known = step->records.find(record.rank, layouts_);
  if (!known.has_value()) return Found::nothing;
  return content_hash(*known) == content_hash(record) ? Found::same : Found::other;
}

bool Attempt::add(const RecordView& record, LayoutId layout, SourceKey source, std::uint64_t seq,
                  UnixMs now) {
  touch();
  learn_layout(layout);
  RankState& rank = rank_state(record.rank);
  const bool late = rank.row.last_step.has_value() && record.step < *rank.row.last_step;
  if (!late) {
    rank.row.last_step = record.step;
    rank.row.last_wall_ms = record.wall_ms();
    if (rank.row.ended) {  // it goes on after all
      rank.row.ended = false;
      rank_counts_.reset();
    }
  }
  rank.row.last_received = now;
  ++rank.row.records;
  rank.dirty = true;
  row_.last_received = now;
  row_dirty_ = true;

  OpenStep* step = find_step(record.step, now);
  if (step == nullptr) {
    step = &steps_.emplace(record.step, record.step).first->second;
    step->first_received = now;
    open_.insert(record.step);
  }
  newest_step_ = std::max(newest_step_.value_or(record.step), record.step);
  step->records.add(record, layout);
  const std::size_t block = record.rank / limits::kRanksPerBlock;
  if (step->dirty_blocks.size() <= block) step->dirty_blocks.resize(block + 1);
  step->dirty_blocks[block] = true;
  if (!step->dirty) step->dirty_since = now;
  step->dirty = true;
  step->undurable.emplace_back(source, seq);
  step->view.reset();
  settle(*step, now);
  return late;
}

void Attempt::learn_layout(LayoutId id) {
  if (!known_layouts_.insert(id).second) return;
  const Layout& layout = layouts_[id];
  const std::size_t before = stages_.size();
  for (const auto* names : {&layout.stream, &layout.host})
    for (const std::string& name : *names)
      if (stages_.intern(name) == kNoStage) ++stages_over_limit_;
  if (stages_over_limit_ > 0)
    warn("more than " + std::to_string(limits::kMaxStagesPerAttempt) +
         " stage names: the times of further ones are stored, but no figure shows them");
  if (stages_.size() != before) {
    stages_dirty_ = true;
    stages_view_.reset();
  }
}

Attempt::RankState& Attempt::rank_state(Rank rank) {
  auto [it, is_new] = ranks_.try_emplace(rank);
  if (is_new) {
    it->second.row.attempt = row_.id;
    it->second.row.rank = rank;
    rank_counts_.reset();
  }
  return it->second;
}

std::optional<Step> Attempt::last_step(Rank rank) const {
  const auto it = ranks_.find(rank);
  return it == ranks_.end() ? std::nullopt : it->second.row.last_step;
}

std::string Attempt::settings(Rank rank) const {
  const auto it = ranks_.find(rank);
  return it == ranks_.end() ? std::string() : it->second.row.settings;
}

// ---- what is known of ranks ----

bool Attempt::configure(Rank rank, std::uint32_t world_size, std::string settings, UnixMs now) {
  touch();
  RankState& state = rank_state(rank);
  if (!settings.empty() && state.row.settings == settings) return false;
  const Settings parsed = parse_settings(settings);
  if (!parsed.host.empty()) state.row.host = parsed.host;
  state.row.settings = std::move(settings);
  state.row.last_received = std::max(state.row.last_received, now);
  state.dirty = true;
  row_.last_received = std::max(row_.last_received, now);
  row_dirty_ = true;
  if (world_size != 0 && row_.world_size != 0 && world_size != row_.world_size)
    warn("rank " + std::to_string(rank) + " says world_size " + std::to_string(world_size) +
         ", another rank said " + std::to_string(row_.world_size) + ": the larger one is expected");
  row_.world_size = std::max(row_.world_size, world_size);
  rank_counts_.reset();
  if (const auto sentence = contradiction(parsed)) warn(*sentence);
  learn_stages(parsed.stage_parents, parsed.stage_kinds, Knowledge::records);
  settle_all(now);
  return true;
}

void Attempt::learn_stages(const std::map<std::string, std::string>& parents,
                           const std::map<std::string, std::string>& kinds, Knowledge from) {
  if (parents.empty() && kinds.empty()) return;
  touch();
  stages_dirty_ = true;
  stages_view_.reset();
  for (const auto& [child, parent] : parents) {
    const StageId child_id = stages_.intern(child);
    const StageId parent_id = stages_.intern(parent);
    if (child_id == kNoStage || parent_id == kNoStage) continue;
    if (!stages_.set_parent(child_id, parent_id, from))
      warn("stage " + child + " cannot be inside " + parent + ": that closes a circle, it is ignored");
  }
  for (const auto& [name, kind] : kinds) {
    const StageId id = stages_.intern(name);
    const auto known = stage_kind_of(kind);
    if (!known.has_value())
      warn("stage " + name + ": there is no kind \"" + kind + "\" (work, input, sync, aside), it is ignored");
    else if (id != kNoStage)
      stages_.set_kind(id, *known, from);
  }
}

void Attempt::warn(std::string sentence) {
  if (warnings_.size() < kMostWarnings &&
      std::find(warnings_.begin(), warnings_.end(), sentence) == warnings_.end())
    warnings_.push_back(std::move(sentence));
}

void Attempt::inherit(const Attempt& earlier, Rank rank) {
  if (row_.world_size == 0) row_.world_size = earlier.row_.world_size;
  rank_counts_.reset();
  for (StageId id = 0; id < earlier.stages_.size(); ++id) {
    const Stage& stage = earlier.stages_[id];
    const StageId mine = stages_.intern(stage.name);
    if (mine == kNoStage) continue;
    stages_.set_kind(mine, stage.kind, stage.kind_from);
    if (stage.parent != kNoStage)
      stages_.set_parent(mine, stages_.intern(earlier.stages_[stage.parent].name), stage.parent_from);
  }
  stages_dirty_ = true;
  stages_view_.reset();
  RankState& state = rank_state(rank);
  if (state.row.settings.empty()) state.row.settings = earlier.settings(rank);
  state.dirty = true;
}

bool Attempt::end(Rank rank, UnixMs now) {
  touch();
  RankState& state = rank_state(rank);
  if (state.row.ended) return false;
  state.row.ended = true;
  rank_counts_.reset();
  state.row.last_received = std::max(state.row.last_received, now);
  state.dirty = true;
  settle_all(now);
  return true;
}

void Attempt::source_changed(Rank rank, const std::string& host, bool live, bool finished, UnixMs now) {
  touch();
  RankState& state = rank_state(rank);
  if (!host.empty()) state.row.host = host;
  if (state.live != live) live_ranks_ += live ? 1U : -1U;
  state.live = live;
  state.had_source = true;
  rank_counts_.reset();
  if (state.row.finished != finished) {
    state.row.finished = finished;
    state.dirty = true;
  }
  settle_all(now);
}

void Attempt::add_lines(const LineTotals& before, const LineTotals& after) {
  touch();
  lines_.accepted += after.accepted - before.accepted;
  lines_.foreign += after.foreign - before.foreign;
  lines_.rejected += after.rejected - before.rejected;
  lines_.pending_tail += after.pending_tail - before.pending_tail;
}

void Attempt::add_clash(Clash clash) {
  touch();
  clashes_.push_back(std::move(clash));
}

// ---- which ranks a step waits for ----

const Attempt::RankCounts& Attempt::rank_counts() const {
  if (rank_counts_.has_value()) return *rank_counts_;
  RankCounts& counts = rank_counts_.emplace();
  counts.expected = row_.world_size + static_cast<std::uint32_t>(
                                          std::distance(ranks_.lower_bound(row_.world_size), ranks_.end()));
  for (const auto& [rank, state] : ranks_) {
    if (state.row.ended) counts.ended_last_steps.push_back(state.row.last_step.value_or(kBeforeAllSteps));
    if (state.had_source && !state.live) ++counts.gone;
  }
  std::sort(counts.ended_last_steps.begin(), counts.ended_last_steps.end());
  return counts;
}

bool Attempt::is_expected_at(Rank rank, Step step) const {
  const auto it = ranks_.find(rank);
  if (it == ranks_.end()) return rank < row_.world_size;
  const RankRow& row = it->second.row;
  return !(row.ended && row.last_step.value_or(kBeforeAllSteps) < step);
}

std::uint32_t Attempt::expected_at(Step step) const {
  const RankCounts& counts = rank_counts();
  const auto first = std::lower_bound(counts.ended_last_steps.begin(), counts.ended_last_steps.end(), step);
  return counts.expected - static_cast<std::uint32_t>(first - counts.ended_last_steps.begin());
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
  if (step.records.size() + rank_counts().gone < expected_at(step.records.step())) return false;
  std::uint32_t gone = 0;
  for (const auto& [rank, state] : ranks_)
    if (!step.records.contains(rank) && is_expected_at(rank, step.records.step()) && state.had_source &&
        !state.live)
      ++gone;
  return gone > 0 && step.records.size() + gone == expected_at(step.records.step());
}

// ---- settling ----

std::int64_t Attempt::overdue_ms() const {
  const double by_wall = is_valid(median_wall_ms_) ? options_.overdue_factor * median_wall_ms_ : 0;
  return std::max(options_.overdue_after_ms, static_cast<std::int64_t>(by_wall));
}

void Attempt::settle(OpenStep& step, UnixMs now) {
  const Step number = step.records.step();
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
  const bool overtaken = newest_step_.has_value() && *newest_step_ >= number + 2;
  if (!full && ((old && (overtaken || !any_live())) || all_missing_are_gone(step))) {
    if (step.state != StepState::partial)
      become(step, StepState::partial, now);
    else if (step.view == nullptr)
      note_history(step, ++events_);
    return;
  }
  if (step.state != StepState::open && step.state != StepState::partial) become(step, StepState::open, now);
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
  if (!step.dirty) step.dirty_since = now;
  step.dirty = true;
  step.view.reset();
  if (state == StepState::open) {
    step.settled_at = 0;
    open_.insert(number);
    history_.erase(number);
    return;
  }
  open_.erase(number);
  step.settled_at = now;
  ++steps_by_state_[state];
  newest_settled_ = std::max(newest_settled_.value_or(number), number);
  note_history(step, ++events_);
}

void Attempt::note_history(const OpenStep& step, std::uint64_t event) {
  const Step number = step.records.step();
  const std::shared_ptr<const StepView> view = step_view(step);
  if (newest_settled_ == number) settled_view_ = view;
  const StepBreakdown& breakdown = view->breakdown;
  StepPoint point{.step = number,
                  .state = step.state,
                  .present = breakdown.present,
                  .expected = view->expected,
                  .wall_max_ms = breakdown.wall.max,
                  .slowest = breakdown.slowest,
                  .event = event};
  if (breakdown.culprit.has_value()) point.culprit = breakdown.culprit->rank;
  history_[number] = point;
  while (history_.size() > kHistoryPoints) history_.erase(history_.begin());
  update_median();
}

void Attempt::update_median() {
  std::vector<double> walls;
  for (const auto& [number, point] : history_)
    if (is_valid(point.wall_max_ms)) walls.push_back(point.wall_max_ms);
  if (walls.empty()) return;
  const auto middle = walls.begin() + static_cast<std::ptrdiff_t>(walls.size() / 2);
  std::nth_element(walls.begin(), middle, walls.end());
  median_wall_ms_ = *middle;
}

void Attempt::tick(UnixMs now) {
  for (auto it = open_.begin(); it != open_.end();) {
    OpenStep& step = steps_.at(*it++);  // settle() may take it out of open_
    settle(step, now);
  }
}

std::shared_ptr<const StepView> Attempt::step_view(const OpenStep& step) const {
  if (step.view != nullptr) return step.view;
  auto view = std::make_shared<StepView>();
  view->breakdown = break_down(step.records, layouts_, stages_);
  view->state = step.state;
  view->expected = expected_at(step.records.step());
  view->missing = missing_at(step, kMissingListed);
  const auto present = static_cast<std::uint32_t>(step.records.size());
  view->missing_count = view->expected > present ? view->expected - present : 0;
  view->first_received = step.first_received;
  view->settled_at = step.settled_at;
  step.view = view;
  return view;
}

// ---- storage ----

bool Attempt::due(const OpenStep& step, UnixMs now, std::int64_t max_wait_ms) {
  return step.dirty && (step.state != StepState::open || now - step.dirty_since >= max_wait_ms);
}

void Attempt::collect(Writes& writes, UnixMs now, std::int64_t max_wait_ms) {
  if (row_dirty_) writes.attempts.push_back(row_);
  if (stages_dirty_)
    writes.stages.emplace_back(row_.id, std::vector(stages_.all().begin(), stages_.all().end()));
  for (auto& [rank, state] : ranks_)
    if (state.dirty) writes.ranks.push_back(state.row);
  for (auto& [number, step] : steps_) {
    if (!due(step, now, max_wait_ms)) continue;
    step.handed_out = true;
    StepRow row{.attempt = row_.id, .view = step_view(step)};
    for (std::uint32_t block = 0; block < step.dirty_blocks.size(); ++block)
      if (step.dirty_blocks[block]) row.blocks.emplace_back(block, &step.records.blocks()[block]);
    writes.steps.push_back(std::move(row));
  }
}

void Attempt::committed() {
  row_dirty_ = false;
  stages_dirty_ = false;
  for (auto& [rank, state] : ranks_) state.dirty = false;
  for (auto& [number, step] : steps_) {
    if (!step.handed_out) continue;
    step.handed_out = false;
    step.dirty = false;
    step.dirty_blocks.assign(step.dirty_blocks.size(), false);
    step.undurable.clear();
  }
  evict();
}

void Attempt::evict() {
  std::size_t settled = steps_.size() - open_.size();
  for (auto it = steps_.begin(); it != steps_.end() && settled > kRecentSteps;) {
    const OpenStep& step = it->second;
    if (step.state == StepState::open || step.dirty) {
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

void Attempt::add_undurable(std::map<SourceKey, std::uint64_t>& lowest) const {
  for (const auto& [number, step] : steps_) {
    if (step.handed_out) continue;
    for (const auto& [source, seq] : step.undurable) {
      const auto [it, is_new] = lowest.emplace(source, seq);
      if (!is_new) it->second = std::min(it->second, seq);
    }
  }
}

void Attempt::restore_rank(const RankRow& row) {
  ranks_[row.rank].row = row;
  ranks_[row.rank].had_source = true;
  if (row.last_step.has_value())
    newest_step_ = std::max(newest_step_.value_or(*row.last_step), *row.last_step);
  row_dirty_ = false;
  rank_counts_.reset();
  if (row.settings.empty()) return;
  if (const auto sentence = contradiction(parse_settings(row.settings))) warn(*sentence);
}

void Attempt::restore_step(const Restored::StepInfo& info, UnixMs now) {
  newest_step_ = std::max(newest_step_.value_or(info.step), info.step);
  std::unique_ptr<StepRecords> stored = archive_.load(row_.id, info.step);
  if (stored == nullptr) return;
  OpenStep& step = steps_.emplace(info.step, info.step).first->second;
  step.records = std::move(*stored);
  step.first_received = info.first_received;
  for (const PackedRecords& block : step.records.blocks())
    for (std::size_t i = 0; i < block.size(); ++i) learn_layout(block.layout_id(i));
  step.state = info.state;
  if (info.state == StepState::open) {
    open_.insert(info.step);
    settle(step, now);
    return;
  }
  newest_settled_ = std::max(newest_settled_.value_or(info.step), info.step);
  note_history(step, kNoEvent);
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
  view->stalled_after_ms =
      std::max(options_.stalled_after_ms,
               is_valid(median_wall_ms_) ? static_cast<std::int64_t>(kStalledWalls * median_wall_ms_) : 0);
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
