#include "daemon/core/model.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "daemon/base/limits.h"

namespace laggard::core {
namespace {

template <typename Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return std::nullopt;
  return static_cast<Enum>(it - names.begin());
}

constexpr std::array<std::string_view, 4> kKinds{"work", "input", "sync", "aside"};
constexpr std::array<std::string_view, 4> kKnowledge{"assumed", "built-in", "records", "profile"};
constexpr std::array<std::string_view, 2> kClocks{"stream", "host"};
constexpr std::array<std::string_view, 4> kStepStates{"open", "complete", "partial", "late_completed"};
constexpr std::array<std::string_view, 4> kRunStates{"running", "stalled", "lost", "ended"};

template <std::size_t N, typename Enum>
std::string_view name_at(const std::array<std::string_view, N>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

// Words of a name, lower case: "grads-reduce-scatter" is grads, reduce, scatter.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0)
      words.back() += static_cast<char>(std::tolower(u));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

bool has_word(const std::vector<std::string>& words, std::initializer_list<std::string_view> looked_for) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(looked_for.begin(), looked_for.end(), word) != looked_for.end();
  });
}

bool has_pair(const std::vector<std::string>& words, std::string_view first, std::string_view second) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == first && words[i + 1] == second) return true;
  return false;
}

}  // namespace

std::string_view name_of(StageKind kind) { return name_at(kKinds, kind); }
std::string_view name_of(Knowledge knowledge) { return name_at(kKnowledge, knowledge); }
std::string_view name_of(Clock clock) { return name_at(kClocks, clock); }
std::string_view name_of(StepState state) { return name_at(kStepStates, state); }
std::string_view name_of(RunState state) { return name_at(kRunStates, state); }
std::optional<StageKind> stage_kind_of(std::string_view name) { return find_name<StageKind>(kKinds, name); }
std::optional<StepState> step_state_of(std::string_view name) {
  return find_name<StepState>(kStepStates, name);
}

bool is_aside_name(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  const std::string& first = words.front();
  return first.starts_with("checkpoint") || first.starts_with("eval") || first.starts_with("logging");
}

std::optional<StageKind> built_in_kind(std::string_view name) {
  if (is_aside_name(name)) return StageKind::aside;
  const std::vector<std::string> words = words_of(name);
  const bool collective =
      has_word(words, {"communication", "comm", "allreduce", "allgather", "reducescatter", "alltoall",
                       "barrier", "recv", "send", "receive", "broadcast", "sync", "synchronize", "nccl"}) ||
      has_pair(words, "all", "reduce") || has_pair(words, "all", "gather") ||
      has_pair(words, "reduce", "scatter") || has_pair(words, "all", "to");
  if (collective) return StageKind::sync;
  if (has_word(words, {"fetch", "dataloader", "dataloading", "data", "input", "inputs", "load", "loader"}))
    return StageKind::input;
  return std::nullopt;
}

StageId StageTable::intern(std::string_view name) {
  if (const auto known = find(name)) return *known;
  if (stages_.size() >= limits::kMaxStagesPerAttempt) return kNoStage;
  restore({.name = std::string(name)});
  return static_cast<StageId>(stages_.size() - 1);
}

void StageTable::restore(Stage stage) {
  // What a name means is not stored: it is as this version knows it.
  if (stage.kind_from == Knowledge::assumed || stage.kind_from == Knowledge::built_in) {
    const auto kind = built_in_kind(stage.name);
    stage.kind = kind.value_or(StageKind::work);
    stage.kind_from = kind.has_value() ? Knowledge::built_in : Knowledge::assumed;
  }
  by_name_.emplace(stage.name, static_cast<StageId>(stages_.size()));
  stages_.push_back(std::move(stage));
}

std::optional<StageId> StageTable::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  if (it == by_name_.end()) return std::nullopt;
  return it->second;
}

bool StageTable::set_parent(StageId stage, StageId parent, Knowledge from) {
  for (StageId up = parent; up != kNoStage; up = stages_[up].parent)
    if (up == stage) return false;
  Stage& entry = stages_[stage];
  if (from < entry.parent_from) return true;
  entry.parent = parent;
  entry.parent_from = from;
  return true;
}

void StageTable::set_kind(StageId stage, StageKind kind, Knowledge from) {
  Stage& entry = stages_[stage];
  if (from < entry.kind_from) return;
  entry.kind = kind;
  entry.kind_from = from;
}

bool StageTable::has_children(StageId stage) const {
  return std::any_of(stages_.begin(), stages_.end(), [&](const Stage& s) { return s.parent == stage; });
}

int StageTable::depth(StageId stage) const {
  int depth = 0;
  for (StageId up = stages_[stage].parent; up != kNoStage; up = stages_[up].parent) ++depth;
  return depth;
}

std::vector<StageId> StageTable::tree_order() const {
  std::vector<std::vector<StageId>> children(stages_.size() + 1);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const StageId parent = stages_[i].parent;
    children[parent == kNoStage ? stages_.size() : parent].push_back(static_cast<StageId>(i));
  }
  std::vector<StageId> order;
  std::vector<StageId> todo(children.back().rbegin(), children.back().rend());
  while (!todo.empty()) {
    const StageId stage = todo.back();
    todo.pop_back();
    order.push_back(stage);
    todo.insert(todo.end(), children[stage].rbegin(), children[stage].rend());
  }
  return order;
}

}  // namespace laggard::core
