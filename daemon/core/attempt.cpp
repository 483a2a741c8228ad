#include "daemon/core/attempt.h"

#include <algorithm>

#include "daemon/base/limits.h"
#include "daemon/base/settings.h"

namespace laggard::core {

Attempt::Attempt(AttemptRow row, const Options& options, const LayoutTable& layouts, StepArchive& archive,
                 std::uint64_t& events)
    : row_(row), options_(options), layouts_(layouts), archive_(archive), events_(events) {
  set_world_size(row_.world_size);
}

template <typename Change>
void Attempt::recount(RankState& state, const Change& change) {
  count(state, false);
  change();
  count(state, true);
}

// ---- records ----

Attempt::OpenStep* Attempt::find_step(Step step) {
  const auto it = steps_.find(step);
  if (it != steps_.end()) return &it->second;
  if (!newest_step_.has_value() || step > *newest_step_) return nullptr;
  std::optional<StoredStep> stored = archive_.load(row_.id, step);
  if (!stored.has_value()) return nullptr;
  evict();  // a file read again must not fill the memory with the steps it touches
  OpenStep& loaded = steps_.emplace(step, std::move(*stored->records)).first->second;
  loaded.first_received = stored->first_received;
  loaded.settled_at = stored->settled_at;
  loaded.state = stored->state;
  if (loaded.state == StepState::open) open_.insert(step);
  return &loaded;
}

Attempt::OpenStep& Attempt::new_step(Step step, UnixMs now) {
  StepRecords records =
      steps_.empty() ? StepRecords(step) : StepRecords(step, steps_.rbegin()->second.records);
  OpenStep& added = steps_.emplace(step, std::move(records)).first->second;
  added.first_received = now;
  open_.insert(step);
  return added;
}

Attempt::Taken Attempt::take(const RecordView& record, LayoutId layout, SourceKey source, std::uint64_t seq,
                             UnixMs now) {
  if (row_.records_from.has_value() && record.step < *row_.records_from) return {Found::expired};
  OpenStep* step = find_step(record.step);
  if (step != nullptr) {
    if (const auto known = step->records.find(record.rank, layouts_)) {
      // Not acknowledged to this source either before what is here is durable.
      if (step->dirty) step->undurable.push_back({source, seq, nullptr});
      return {content_hash(*known) == content_hash(record) ? Found::same : Found::other};
    }
    if (step->records.block_bytes(record.rank) >= limits::kMaxBlockBytes) return {Found::no_room};
  }
  touch();
  learn_layout(layout);
  RankState& rank = rank_state(record.rank);
  const bool late = rank.row.last_step.has_value() && record.step < *rank.row.last_step;
  if (!late) {
    if (rank.row.ended) recount(rank, [&] { rank.row.ended = false; });  // it goes on after all
    rank.row.last_step = record.step;
    rank.row.last_wall_ms = record.wall_ms();
  }
  rank.row.last_received = now;
  ++rank.row.records;
  ++rank.waiting;  // its row is written with the step
  row_.last_received = now;
  row_dirty_ = true;

  if (step == nullptr) step = &new_step(record.step, now);
  newest_step_ = std::max(newest_step_.value_or(record.step), record.step);
  step->records.add(record, layout);
  const std::size_t block = record.rank / limits::kRanksPerBlock;
  if (step->dirty_blocks.size() <= block) step->dirty_blocks.resize(block + 1);
  step->dirty_blocks[block] = true;
  if (!step->dirty) step->dirty_since = now;
  step->dirty = true;
  step->undurable.push_back({source, seq, &rank});
  step->view.reset();
  settle(*step, now);
  return {.late = late};
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
    if (rank >= row_.world_size) ++rank_counts_.expected;
  }
  return it->second;
}

void Attempt::mark(RankState& state) { state.dirty = any_rank_dirty_ = true; }

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
  verdict_.learn(rank, parsed, state.row.host);
  if (launch_.empty()) launch_ = parsed.launch;
  state.row.settings = std::move(settings);
  state.settings_dirty = true;
  state.row.last_received = std::max(state.row.last_received, now);
  mark(state);
  row_.last_received = std::max(row_.last_received, now);
  row_dirty_ = true;
  if (world_size != 0 && row_.world_size != 0 && world_size != row_.world_size)
    warn("rank " + std::to_string(rank) + " says world_size " + std::to_string(world_size) +
         ", another rank said " + std::to_string(row_.world_size) + ": the larger one is expected");
  set_world_size(std::max(row_.world_size, world_size));
  if (const auto sentence = contradiction(parsed)) warn(*sentence);
  learn_stages(parsed.stage_parents, parsed.stage_kinds, Knowledge::records, now);
  settle_all(now);
  return true;
}

void Attempt::learn_stages(const std::map<std::string, std::string>& parents,
                           const std::map<std::string, std::string>& kinds, Knowledge from, UnixMs now) {
  if (parents.empty() && kinds.empty()) return;
  touch();
  for (auto& [number, step] : steps_) outdate(step, now);
  const std::vector<Stage> before(stages_.all().begin(), stages_.all().end());
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
  if (std::ranges::equal(before, stages_.all())) return;
  verdict_.clear();
  settle_all(now);
}

void Attempt::warn(std::string sentence) {
  if (warnings_.size() < kMostWarnings &&
      std::find(warnings_.begin(), warnings_.end(), sentence) == warnings_.end())
    warnings_.push_back(std::move(sentence));
}

void Attempt::warn_of_expired() {
  touch();
  warn("records came of steps whose records are kept no longer: they cannot be compared, and are rejected");
}

void Attempt::inherit(const Attempt& earlier, Rank rank) {
  if (row_.world_size == 0) set_world_size(earlier.row_.world_size);
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
  verdict_.learn(rank, parse_settings(state.row.settings), state.row.host);
  state.settings_dirty = true;
  mark(state);
}

bool Attempt::end(Rank rank, UnixMs now) {
  touch();
  RankState& state = rank_state(rank);
  if (state.row.ended) return false;
  recount(state, [&] { state.row.ended = true; });
  state.row.last_received = std::max(state.row.last_received, now);
  mark(state);
  settle_all(now);
  return true;
}

void Attempt::source_changed(Rank rank, const std::string& host, bool live, bool finished, UnixMs now) {
  touch();
  RankState& state = rank_state(rank);
  if (!host.empty() && state.row.host != host) {
    state.row.host = host;
    verdict_.learn(rank, parse_settings(state.row.settings), host);
  }
  if (state.live != live) live_ranks_ += live ? 1U : -1U;
  recount(state, [&] {
    state.live = live;
    state.had_source = true;
  });
  if (state.row.finished != finished) {
    state.row.finished = finished;
    mark(state);
  }
  settle_all(now);
}

void Attempt::add_lines(const LineTotals& before, const LineTotals& after) {
  touch();
  if (!lines_.has_value()) lines_.emplace();
  lines_->accepted += after.accepted - before.accepted;
  lines_->foreign += after.foreign - before.foreign;
  lines_->rejected += after.rejected - before.rejected;
  lines_->pending_tail += after.pending_tail - before.pending_tail;
}

void Attempt::add_clash(Clash clash) {
  if (clashes_.size() == kMostWarnings) return;
  touch();
  clashes_.push_back(std::move(clash));
}

}  // namespace laggard::core
