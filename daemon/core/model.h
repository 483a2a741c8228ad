// The words of the design as types: stages and their tree, states of steps and runs, clocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/base/record.h"

namespace laggard::core {

/// Milliseconds since 1970 by the collector's clock. Liveness and ages come from it, durations never do.
using UnixMs = std::int64_t;
using RunId = std::int64_t;
using AttemptId = std::int64_t;
using SourceKey = std::int64_t;
using StageId = std::uint16_t;
inline constexpr StageId kNoStage = 0xffff;

/// How a stage's time is to be read: `sync` contains waiting for other ranks, `aside` is no part of a
/// normal step (checkpoint, evaluation, logging).
enum class StageKind : std::uint8_t { work, input, sync, aside };
/// Who said so, the weakest first: a later one replaces an earlier one.
enum class Knowledge : std::uint8_t { assumed, built_in, records, profile };
enum class Clock : std::uint8_t { stream, host };
enum class StepState : std::uint8_t { open, complete, partial, late_completed };
enum class RunState : std::uint8_t { running, stalled, lost, ended };

std::string_view name_of(StageKind kind);
std::string_view name_of(Knowledge knowledge);
std::string_view name_of(Clock clock);
std::string_view name_of(StepState state);
std::string_view name_of(RunState state);
std::optional<StageKind> stage_kind_of(std::string_view name);
std::optional<StepState> step_state_of(std::string_view name);

struct Stage {
  std::string name;
  StageId parent = kNoStage;
  StageKind kind = StageKind::work;
  Knowledge kind_from = Knowledge::assumed;
  Knowledge parent_from = Knowledge::assumed;
  bool operator==(const Stage&) const = default;
};

/// The stages of an attempt and how they nest. Ids count up from 0 in the order of first sight.
class StageTable {
 public:
  /// The id of a stage; a new stage gets the built-in kind of its name. kNoStage when the table is full
  /// (limits::kMaxStagesPerAttempt).
  StageId intern(std::string_view name);
  std::optional<StageId> find(std::string_view name) const;
  /// Says what is known of a stage; weaker knowledge never replaces stronger. Returns false for a parent
  /// that would close a circle (nothing is changed then).
  bool set_parent(StageId stage, StageId parent, Knowledge from);
  void set_kind(StageId stage, StageKind kind, Knowledge from);
  /// Takes a stage as it was stored; only for ids in order.
  void restore(Stage stage);

  const Stage& operator[](StageId id) const { return stages_[id]; }
  std::size_t size() const { return stages_.size(); }
  std::span<const Stage> all() const { return stages_; }
  bool has_children(StageId stage) const;
  int depth(StageId stage) const;
  /// All stages, each parent before its children, in the order of first sight among siblings.
  std::vector<StageId> tree_order() const;

 private:
  std::vector<Stage> stages_;
  std::unordered_map<std::string, StageId> by_name_;
};

/// What a stage's name alone says of its kind: sync for names of collectives and of communication, aside
/// for names that begin with checkpoint, eval or logging, input for batch and data fetching; nothing
/// otherwise.
std::optional<StageKind> built_in_kind(std::string_view name);
/// True for a tag, or the name of a stage, that takes its step out of a window.
bool is_aside_name(std::string_view name);

}  // namespace laggard::core
