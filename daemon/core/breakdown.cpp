#include "daemon/core/breakdown.h"

#include <algorithm>
#include <set>

namespace laggard::core {
namespace {

/// The times of one step on one clock as a table: a row for each stage, a column for each record.
class Cells {
 public:
  Cells(std::size_t stages, std::size_t records) : records_(records), cells_(stages * records, kAbsent) {}
  double& at(StageId stage, std::size_t record) { return cells_[stage * records_ + record]; }
  double at(StageId stage, std::size_t record) const { return cells_[stage * records_ + record]; }
  std::span<const double> row(StageId stage) const {
    return std::span(cells_).subspan(stage * records_, records_);
  }

 private:
  std::size_t records_;
  std::vector<double> cells_;
};

double median_of(std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(values.begin(), nth, values.end());
  if (values.size() % 2 == 1) return *nth;
  return (*std::max_element(values.begin(), nth) + *nth) / 2;
}

Spread spread_of(std::span<const double> values, std::span<const RecordView> records,
                 std::vector<double>& scratch) {
  Spread spread;
  scratch.clear();
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (!is_valid(value)) continue;
    if (scratch.empty() || value < spread.min) {
      spread.min = value;
      spread.min_rank = records[i].rank;
    }
    if (scratch.empty() || value > spread.max) {
      spread.max = value;
      spread.max_rank = records[i].rank;
    }
    sum += value;
    scratch.push_back(value);
  }
  spread.present = static_cast<std::uint32_t>(scratch.size());
  if (!scratch.empty()) {
    spread.mean = sum / static_cast<double>(scratch.size());
    spread.median = median_of(scratch);
  }
  return spread;
}

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

/// Each stage's time less its children's, where both are valid. A parent one of whose children is null or
/// invalid on a record has no known exclusive time there.
Cells exclusive_of(const Cells& inclusive, const StageTable& stages, std::size_t records) {
  Cells cells = inclusive;
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const StageId parent = stages[stage].parent;
    if (parent == kNoStage) continue;
    for (std::size_t i = 0; i < records; ++i) {
      const double child = inclusive.at(stage, i);
      if (state_of(child) == ValueState::absent || !is_valid(inclusive.at(parent, i))) continue;
      double& cell = cells.at(parent, i);
      if (state_of(cell) == ValueState::null) continue;
      cell = is_valid(child) ? cell - child : kNull;
    }
  }
  return cells;
}

struct Gathered {
  Cells inclusive;
  Cells exclusive;
};

bool any_valid(const Cells& cells, std::size_t stages) {
  for (StageId stage = 0; stage < stages; ++stage)
    for (const double value : cells.row(stage))
      if (is_valid(value)) return true;
  return false;
}

/// The own time of each record, kAbsent where it is not known: no stage was measured, or a value is missing
/// that it would have to contain.
std::vector<double> own_times(const Gathered& cells, const StageTable& stages, std::size_t records) {
  std::vector<double> own(records, kAbsent);
  for (std::size_t i = 0; i < records; ++i) {
    double sum = 0;
    bool measured = false, known = true;
    for (StageId stage = 0; stage < stages.size() && known; ++stage) {
      const double time = cells.inclusive.at(stage, i);
      if (state_of(time) == ValueState::absent) continue;
      measured = true;
      known = is_valid(time);
      if (stages[stage].kind != StageKind::sync) sum += cells.exclusive.at(stage, i);
    }
    if (measured && known) own[i] = std::max(sum, 0.0);
  }
  return own;
}

std::optional<Culprit> find_culprit(std::span<const RecordView> records, const Gathered& cells,
                                    const StageTable& stages, const Spread& own, double wall_ms) {
  if (own.present < 2 || !is_valid(wall_ms)) return std::nullopt;
  Culprit culprit{.rank = own.max_rank, .own_excess_ms = own.max - own.median};
  if (!(culprit.own_excess_ms > kCulpritExcess * wall_ms)) return std::nullopt;

  std::vector<double> others;
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].kind == StageKind::sync) continue;
    std::optional<double> mine;
    others.clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!is_valid(cells.inclusive.at(stage, i))) continue;
      const double time = cells.exclusive.at(stage, i);
      if (state_of(time) == ValueState::null) continue;
      if (records[i].rank == culprit.rank)
        mine = time;
      else
        others.push_back(time);
    }
    if (!mine.has_value()) continue;
    const double excess = others.empty() ? *mine : *mine - median_of(others);
    if (culprit.stage == kNoStage || excess > culprit.stage_excess_ms) {
      culprit.stage = stage;
      culprit.stage_excess_ms = excess;
    }
  }
  return culprit;
}

bool has_child(const Cells& cells, const StageTable& stages, StageId parent, std::size_t record) {
  for (StageId stage = 0; stage < stages.size(); ++stage)
    if (stages[stage].parent == parent && state_of(cells.at(stage, record)) != ValueState::absent)
      return true;
  return false;
}

void add_stages(StepBreakdown& out, std::span<const RecordView> records, const Gathered& cells,
                const StageTable& stages, Clock clock, std::optional<std::size_t> slowest,
                std::vector<double>& scratch) {
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const auto row = cells.inclusive.row(stage);
    StageBreakdown entry{.stage = stage, .clock = clock};
    std::uint32_t seen = 0;
    for (const double value : row) {
      const ValueState state = state_of(value);
      seen += state != ValueState::absent ? 1U : 0U;
      entry.null += state == ValueState::null ? 1U : 0U;
      entry.invalid += is_invalid(value) ? 1U : 0U;
    }
    if (seen == 0) continue;
    entry.spread = spread_of(row, records, scratch);
    if (slowest.has_value()) {
      entry.slowest_ms = row[*slowest];
      const double exclusive = cells.exclusive.at(stage, *slowest);
      if (is_valid(entry.slowest_ms) && has_child(cells.inclusive, stages, stage, *slowest) &&
          state_of(exclusive) != ValueState::null)
        entry.slowest_exclusive_ms = exclusive;
      scratch.clear();
      for (std::size_t i = 0; i < row.size(); ++i)
        if (i != *slowest && is_valid(row[i])) scratch.push_back(row[i]);
      if (!scratch.empty()) {
        entry.others_max_ms = *std::max_element(scratch.begin(), scratch.end());
        entry.others_median_ms = median_of(scratch);
      }
    }
    out.stages.push_back(entry);
  }
}

void add_tags(StepBreakdown& out, std::span<const RecordView> records, const StageTable& stages) {
  std::set<std::string> tags;
  for (const RecordView& record : records)
    if (record.rest != nullptr) tags.insert(record.rest->tags.begin(), record.rest->tags.end());
  out.tags.assign(tags.begin(), tags.end());
  out.aside =
      !tags.empty() || std::any_of(out.stages.begin(), out.stages.end(), [&](const StageBreakdown& s) {
        return stages[s.stage].kind == StageKind::aside && s.spread.present > 0;
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
  std::vector<double> scratch;
  StepBreakdown out{.step = step.step(), .present = static_cast<std::uint32_t>(records.size())};

  std::vector<double> walls;
  walls.reserve(records.size());
  for (const RecordView& record : records) {
    walls.push_back(record.wall_ms());
    out.invalid_values += count_invalid(record);
  }
  out.wall = spread_of(walls, records, scratch);
  std::optional<std::size_t> slowest;
  if (out.wall.present > 0) {
    out.slowest = out.wall.max_rank;
    slowest =
        static_cast<std::size_t>(std::find_if(records.begin(), records.end(),
                                              [&](const RecordView& r) { return r.rank == *out.slowest; }) -
                                 records.begin());
    out.near_tie = out.wall.present > 1 && out.wall.max - out.wall.min <= kNearTie * out.wall.min;
  }

  const auto cells_on = [&](Clock clock) {
    Cells inclusive = gather(records, stages, clock);
    Cells exclusive = exclusive_of(inclusive, stages, records.size());
    return Gathered{std::move(inclusive), std::move(exclusive)};
  };
  const Gathered stream = cells_on(Clock::stream);
  const Gathered host = cells_on(Clock::host);
  add_stages(out, records, stream, stages, Clock::stream, slowest, scratch);
  add_stages(out, records, host, stages, Clock::host, slowest, scratch);
  add_tags(out, records, stages);

  out.clock = any_valid(stream.inclusive, stages.size()) ? Clock::stream : Clock::host;
  const Gathered& compared = out.clock == Clock::stream ? stream : host;
  out.own = spread_of(own_times(compared, stages, records.size()), records, scratch);
  out.culprit = find_culprit(records, compared, stages, out.own, out.wall.max);
  return out;
}

std::string exclusive_name(std::string_view parent) { return std::string(parent) + "_other"; }

}  // namespace laggard::core
