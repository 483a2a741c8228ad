#include "agent/api/recorder.h"

#include <algorithm>

namespace laggard::agent {
namespace {

constexpr std::size_t kHeldAtOnce = 1;  // the step that is being measured

}  // namespace

Recorder::StepState::StepState()
    : stages(std::make_unique<StageTotals[]>(limits::kMaxApiNames)),
      counts(std::make_unique<Named<std::int64_t>[]>(limits::kMaxApiNames)),
      values(std::make_unique<Named<double>[]>(limits::kMaxApiNames)) {}

Recorder::Recorder(Names& names, Ring& ring, CallCounts& counts, std::size_t held_steps)
    : names_(names),
      ring_(ring),
      counts_(counts),
      steps_(std::min(held_steps, limits::kMaxHeldSteps) + kHeldAtOnce) {}

void Recorder::step_begin(Step step, Ns now) {
  if (in_step_) step_end(now);
  StepState& state = current();
  last_step_ = state.step = step < 0 ? last_step_ + 1 : step;
  if (!state.begun) state.begin = now;
  state.begun = in_step_ = true;
}

void Recorder::step_end(Ns now) {
  if (!in_step_) return ignore();
  for (; depth_ > 0; ignore()) close_innermost(now);
  too_deep_ = 0;
  in_step_ = false;
  current().wall = now - current().begin;
  add(counts_.recorded);
  ++held_;
  newest_ = (newest_ + 1) % steps_.size();
  hand_over(steps_.size() - kHeldAtOnce);
}

void Recorder::stage_begin(int stage, Ns now) {
  if (!knows_stage(stage)) return ignore();
  if (depth_ == open_.size()) {
    ++too_deep_;
    return ignore();
  }
  const auto id = static_cast<NameId>(stage);
  StepState& state = current();
  const bool begins_wall = !state.begun;
  if (begins_wall) {
    state.begin = now;
    state.begun = true;
  }
  if (names_.stage_info[id].parent.load(std::memory_order_relaxed) == Names::kNotEntered) learn_parent(id);
  ++active_[id];
  open_[depth_++] = {id, now, begins_wall};
}

// A stage has one parent: the one it was in first.
void Recorder::learn_parent(NameId stage) {
  const bool inside = depth_ > 0 && open_[depth_ - 1].stage != stage;
  const std::int32_t parent =
      inside ? static_cast<std::int32_t>(open_[depth_ - 1].stage) : std::int32_t{Names::kNoParent};
  names_.stage_info[stage].parent.store(parent, std::memory_order_relaxed);
  if (inside) names_.stage_version.fetch_add(1, std::memory_order_release);
}

// False, too, for one beyond the most that nest, which was not measured.
bool Recorder::is_open(int stage) {
  if (knows_stage(stage) && too_deep_ > 0) {
    --too_deep_;
    return false;
  }
  if (knows_stage(stage) && active_[static_cast<NameId>(stage)] > 0) return true;
  ignore();
  return false;
}

void Recorder::close_inside(NameId stage, Ns now) {
  for (; open_[depth_ - 1].stage != stage; ignore()) close_innermost(now);
}

void Recorder::stage_end(int stage, Ns now) {
  if (!is_open(stage)) return;
  close_inside(static_cast<NameId>(stage), now);
  close_innermost(now);
}

void Recorder::stage_drop(int stage, Ns now) {
  if (!is_open(stage)) return;
  const auto id = static_cast<NameId>(stage);
  close_inside(id, now);
  --active_[id];
  if (open_[--depth_].began_wall && !in_step_) current().begun = false;
}

// Of a stage inside itself the outermost call has the whole time.
void Recorder::close_innermost(Ns now) {
  const Open& innermost = open_[--depth_];
  StageTotals& totals = current().stages[innermost.stage];
  ++totals.calls;
  if (--active_[innermost.stage] == 0) totals.host_ns += now - innermost.begin;
}

Recorder::StepState* Recorder::held_step(Step step) {
  if (step < 0) return &current();
  for (std::size_t back = 0; back <= held_; ++back) {
    if (back == 0 && !in_step_) continue;
    StepState& state = steps_[(newest_ + steps_.size() - back) % steps_.size()];
    if (state.step == step) return &state;
  }
  return nullptr;
}

void Recorder::device_ms(int stage, Step step, double ms) {
  StepState* state = knows_stage(stage) ? held_step(step) : nullptr;
  if (state == nullptr) return ignore();
  StageTotals& totals = state->stages[static_cast<NameId>(stage)];
  totals.stream_ms += ms;
  totals.has_stream = true;
}

void Recorder::release(Step step) {
  StepState* state = held_step(step);
  if (state == nullptr || state == &current()) return ignore();
  for (std::size_t back = held_; back > 0; --back)
    if (&steps_[(newest_ + steps_.size() - back) % steps_.size()] == state) return hand_over(back - 1);
}

void Recorder::count(int id, std::int64_t amount) {
  if (static_cast<unsigned>(id) >= names_.counts.size()) return ignore();
  auto& count = current().counts[static_cast<NameId>(id)];
  count.number += amount;
  count.set = true;
}

void Recorder::value(int id, double number) {
  if (static_cast<unsigned>(id) >= names_.values.size()) return ignore();
  current().values[static_cast<NameId>(id)] = {number, true};
}

void Recorder::tag(std::string_view name) {
  const auto id = names_.tags.intern(name);
  if (!id.has_value()) return ignore();
  current().tags |= std::uint64_t{1} << *id;
}

void Recorder::samples(std::span<const std::int64_t> ids) {
  std::vector<std::int64_t>& samples = current().samples;
  if (ids.size() > limits::kMaxSampleIndices - samples.size()) return ignore();
  samples.insert(samples.end(), ids.begin(), ids.end());
}

void Recorder::hand_over(std::size_t most_held) {
  while (held_ > most_held) {
    write(steps_[(newest_ + steps_.size() - held_) % steps_.size()]);
    --held_;
  }
}

void Recorder::write(StepState& step) {
  writer_.begin({.ordinal = ++ordinal_, .step = step.step, .wall_ns = step.wall, .tags = step.tags});
  for (NameId id = 0; id < names_.stages.size(); ++id) {
    StageTotals& totals = step.stages[id];
    if (totals.calls == 0 && !totals.has_stream) continue;
    writer_.add_stage(id, totals);
    totals = {};
  }
  for (NameId id = 0; id < names_.counts.size(); ++id) {
    if (!step.counts[id].set) continue;
    writer_.add_count(id, step.counts[id].number);
    step.counts[id] = {};
  }
  for (NameId id = 0; id < names_.values.size(); ++id) {
    if (!step.values[id].set) continue;
    writer_.add_value(id, step.values[id].number);
    step.values[id] = {};
  }
  writer_.add_samples(step.samples);
  step.samples.clear();
  step.tags = 0;
  step.begun = false;
  ring_.push(writer_.finish());
}

}  // namespace laggard::agent
