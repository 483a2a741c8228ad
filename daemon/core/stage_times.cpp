#include "daemon/core/stage_times.h"

#include <algorithm>

namespace laggard::core {
namespace {

Cells gather(std::span<const RecordView> records, const StageTable& stages, Clock clock) {
  Cells cells(stages.size(), records.size());
  const Layout* layout = nullptr;
  std::vector<std::optional<StageId>> ids;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const RecordView& record = records[i];
    const auto& names = clock == Clock::stream ? record.layout->stream : record.layout->host;
    if (layout != record.layout) {
      layout = record.layout;
      ids.clear();
      for (const std::string& name : names) ids.push_back(stages.find(name));
    }
    const auto times = clock == Clock::stream ? record.stream_ms() : record.host_ms();
    for (std::size_t k = 0; k < times.size(); ++k)
      if (ids[k].has_value()) cells.at(*ids[k], i) = times[k];
  }
  return cells;
}

Cells exclusive_of(const Cells& inclusive, const StageTable& stages) {
  Cells cells = inclusive;
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const StageId parent = stages[stage].parent;
    if (parent == kNoStage) continue;
    for (std::size_t i = 0; i < inclusive.records(); ++i) {
      const double child = inclusive.at(stage, i);
      if (state_of(child) == ValueState::absent || !is_valid(inclusive.at(parent, i))) continue;
      double& cell = cells.at(parent, i);
      if (state_of(cell) == ValueState::null) continue;
      cell = is_valid(child) ? cell - child : kNull;
    }
  }
  return cells;
}

}  // namespace

StageTimes stage_times_on(Clock clock, std::span<const RecordView> records, const StageTable& stages) {
  Cells inclusive = gather(records, stages, clock);
  Cells exclusive = exclusive_of(inclusive, stages);
  return {std::move(inclusive), std::move(exclusive)};
}

bool has_valid(const Cells& cells, StageId stage) {
  return std::ranges::any_of(cells.row(stage), [](double value) { return is_valid(value); });
}

StageTimes times_compared(const StageTimes& stream, const StageTimes& host, const StageTable& stages) {
  // Stages with a stream time, all that contain one, and all that is inside one.
  std::vector<bool> on_stream(stages.size());
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const bool seen = std::ranges::any_of(stream.inclusive.row(stage),
                                          [](double value) { return state_of(value) != ValueState::absent; });
    for (StageId up = stage; seen && up != kNoStage; up = stages[up].parent) on_stream[up] = true;
  }
  const auto overlaps_stream = [&](StageId stage) {
    for (StageId up = stage; up != kNoStage; up = stages[up].parent)
      if (on_stream[up]) return true;
    return false;
  };
  // A rank without any stream time is not known on that clock; its data loader alone would look fast.
  std::vector<bool> has_stream(stream.inclusive.records());
  for (StageId stage = 0; stage < stages.size(); ++stage)
    for (std::size_t i = 0; i < has_stream.size(); ++i)
      if (state_of(stream.inclusive.at(stage, i)) != ValueState::absent) has_stream[i] = true;
  StageTimes times = stream;
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].kind != StageKind::input || overlaps_stream(stage)) continue;
    for (std::size_t i = 0; i < has_stream.size(); ++i) {
      if (!has_stream[i]) continue;
      times.inclusive.at(stage, i) = host.inclusive.at(stage, i);
      times.exclusive.at(stage, i) = host.exclusive.at(stage, i);
    }
  }
  return times;
}

}  // namespace laggard::core
