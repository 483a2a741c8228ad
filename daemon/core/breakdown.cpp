#include "daemon/core/breakdown.h"

#include <algorithm>
#include <set>

namespace laggard::core {
namespace {

bool has_child(const Cells& cells, const StageTable& stages, StageId parent, std::size_t record) {
  for (StageId stage = 0; stage < stages.size(); ++stage)
    if (stages[stage].parent == parent && state_of(cells.at(stage, record)) != ValueState::absent)
      return true;
  return false;
}

void set_slowest(StageBreakdown& entry, const StageTimes& cells, const StageTable& stages,
                 std::size_t slowest) {
  entry.slowest_ms = cells.inclusive.at(entry.stage, slowest);
  const double exclusive = cells.exclusive.at(entry.stage, slowest);
  if (is_valid(entry.slowest_ms) && has_child(cells.inclusive, stages, entry.stage, slowest) &&
      state_of(exclusive) != ValueState::null)
    entry.slowest_exclusive_ms = exclusive;
}

/// The median of the row's `valid` values, and what the ranks beside the slowest say.
void set_medians(StageBreakdown& entry, std::span<const double> row, std::optional<std::size_t> slowest,
                 std::vector<double>& valid) {
  const Middle middle(valid);
  entry.spread.median = middle.median();
  if (!slowest.has_value()) return;
  const bool is_among_them = is_valid(row[*slowest]);
  entry.others_median_ms = is_among_them ? middle.median_without(row[*slowest]) : middle.median();
  entry.others_max_ms = entry.spread.max;
  if (!is_among_them || row[*slowest] < entry.spread.max) return;
  entry.others_max_ms = kAbsent;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != *slowest && is_valid(row[i]) && !(entry.others_max_ms >= row[i])) entry.others_max_ms = row[i];
}

void add_stages(StepBreakdown& out, std::span<const RecordView> records, const StageTimes& cells,
                const StageTable& stages, Clock clock, std::optional<std::size_t> slowest,
                std::vector<double>& valid) {
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const auto row = cells.inclusive.row(stage);
    StageBreakdown entry{.stage = stage, .clock = clock};
    entry.spread = spread_of(row, records, valid);
    if (entry.spread.present < row.size()) {
      bool seen = entry.spread.present > 0;
      for (const double value : row) {
        const ValueState state = state_of(value);
        seen = seen || state != ValueState::absent;
        entry.null += state == ValueState::null ? 1U : 0U;
        entry.invalid += is_invalid(value) ? 1U : 0U;
      }
      if (!seen) continue;
    }
    if (slowest.has_value()) set_slowest(entry, cells, stages, *slowest);
    if (!valid.empty()) set_medians(entry, row, slowest, valid);
    out.stages.push_back(entry);
  }
}

void set_culprit(StepBreakdown& out, std::span<const RecordView> records, const StageTimes& stream,
                 const StageTimes& host) {
  if (!out.culprit.has_value()) return;
  const auto at = static_cast<std::size_t>(
      std::find_if(records.begin(), records.end(),
                   [&](const RecordView& record) { return record.rank == out.culprit->rank; }) -
      records.begin());
  for (StageBreakdown& entry : out.stages)
    entry.culprit_ms = (entry.clock == Clock::stream ? stream : host).inclusive.at(entry.stage, at);
}

void add_tags(StepBreakdown& out, std::span<const RecordView> records, const StageTable& stages) {
  std::set<std::string> tags;
  for (const RecordView& record : records)
    if (record.rest != nullptr) tags.insert(record.rest->tags.begin(), record.rest->tags.end());
  out.tags.assign(tags.begin(), tags.end());
  out.aside =
      !tags.empty() || std::any_of(out.stages.begin(), out.stages.end(), [&](const StageBreakdown& s) {
        // Of scripts that write every stage in every step, the time says whether there was one.
        return stages[s.stage].kind == StageKind::aside && s.spread.max > 0;
      });
}

}  // namespace

std::uint32_t count_invalid(const RecordView& record) {
  std::uint32_t invalid = 0;
  const std::size_t times = record.doubles.size() - record.layout->values.size();
  for (const double time : record.doubles.first(times)) invalid += is_invalid(time) ? 1U : 0U;
  // A value may be negative: it need not be a time.
  for (const double value : record.values()) invalid += state_of(value) == ValueState::non_finite ? 1U : 0U;
  return invalid;
}

StepBreakdown break_down(const StepRecords& step, const LayoutTable& layouts, const StageTable& stages) {
  const std::vector<RecordView> records = step.by_rank(layouts);
  std::vector<double> valid;
  StepBreakdown out{.step = step.step(), .present = static_cast<std::uint32_t>(records.size())};

  std::vector<double> walls;
  walls.reserve(records.size());
  for (const RecordView& record : records) {
    walls.push_back(record.wall_ms());
    out.invalid_values += count_invalid(record);
  }
  out.wall = spread_of(walls, records, valid);
  if (!valid.empty()) out.wall.median = Middle(valid).median();
  std::optional<std::size_t> slowest;
  if (out.wall.present > 0) {
    out.slowest = out.wall.max_rank;
    slowest =
        static_cast<std::size_t>(std::find_if(records.begin(), records.end(),
                                              [&](const RecordView& r) { return r.rank == *out.slowest; }) -
                                 records.begin());
    out.near_tie = out.wall.present > 1 && out.wall.max - out.wall.min <= kNearTie * out.wall.min;
  }

  const StageTimes stream = stage_times_on(Clock::stream, records, stages);
  const StageTimes host = stage_times_on(Clock::host, records, stages);
  add_stages(out, records, stream, stages, Clock::stream, slowest, valid);
  add_stages(out, records, host, stages, Clock::host, slowest, valid);
  add_tags(out, records, stages);

  OwnTimesOfStep own = measure_own(records, stream, host, stages, out.wall.max);
  out.clock = own.clock;
  out.own = own.own;
  out.culprit = own.culprit;
  out.own_times = std::move(own.ranks);
  set_culprit(out, records, stream, host);
  return out;
}

StepOwn own_of(const StepBreakdown& step) {
  return {.step = step.step,
          .wall_ms = step.wall.max,
          .culprit = step.culprit.has_value() ? std::optional(step.culprit->rank) : std::nullopt,
          .own = step.own_times};
}

std::string exclusive_name(std::string_view parent) { return std::string(parent) + "_other"; }

}  // namespace laggard::core
