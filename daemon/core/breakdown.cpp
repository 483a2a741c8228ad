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

/// The middle of some values, enough for two medians: that of all of them, and that of all but one.
class Middle {
 public:
  /// Reorders the values, of which there must be one.
  explicit Middle(std::vector<double>& values) : odd_(values.size() % 2 == 1), others_(values.size() - 1) {
    const auto nth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), nth, values.end());
    at_ = *nth;
    if (nth != values.begin()) below_ = *std::max_element(values.begin(), nth);
    if (odd_ && nth + 1 != values.end()) above_ = *std::min_element(nth + 1, values.end());
  }

  /// The mean of the two middle values of an even number.
  double median() const { return odd_ ? at_ : (below_ + at_) / 2; }
  /// The same of the values without one that equals `value`; kAbsent when it is the only one.
  double median_without(double value) const {
    if (others_ == 0) return kAbsent;
    if (!odd_) return value <= below_ ? at_ : below_;
    if (value < at_) return (at_ + above_) / 2;
    return ((value > at_ ? at_ : above_) + below_) / 2;
  }

 private:
  bool odd_;
  std::size_t others_;
  double below_ = kAbsent, at_ = kAbsent, above_ = kAbsent;  // the middle value and its neighbours
};

/// The spread of a row of values, one for each record. Leaves the valid ones in `valid`, in any order.
Spread spread_of(std::span<const double> values, std::span<const RecordView> records,
                 std::vector<double>& valid) {
  valid.clear();
  double sum = 0;
  std::size_t min = 0, max = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (!is_valid(value)) continue;
    if (valid.empty()) min = max = i;
    if (value < values[min]) min = i;
    if (value > values[max]) max = i;
    sum += value;
    valid.push_back(value);
  }
  Spread spread{.present = static_cast<std::uint32_t>(valid.size())};
  if (valid.empty()) return spread;
  spread.min = values[min];
  spread.min_rank = records[min].rank;
  spread.max = values[max];
  spread.max_rank = records[max].rank;
  spread.mean = sum / static_cast<double>(valid.size());
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
  struct Sum {
    double own_ms = 0;
    bool measured = false, known = true;
  };
  std::vector<Sum> sums(records);
  for (StageId stage = 0; stage < stages.size(); ++stage) {
    const bool counts = stages[stage].kind != StageKind::sync;
    for (std::size_t i = 0; i < records; ++i) {
      const double time = cells.inclusive.at(stage, i);
      if (state_of(time) == ValueState::absent) continue;
      sums[i].measured = true;
      sums[i].known = sums[i].known && is_valid(time);
      if (counts) sums[i].own_ms += cells.exclusive.at(stage, i);
    }
  }
  std::vector<double> own;
  own.reserve(records);
  for (const Sum& sum : sums) own.push_back(sum.measured && sum.known ? std::max(sum.own_ms, 0.0) : kAbsent);
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
    const double excess = others.empty() ? *mine : *mine - Middle(others).median();
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

void set_slowest(StageBreakdown& entry, const Gathered& cells, const StageTable& stages,
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

void add_stages(StepBreakdown& out, std::span<const RecordView> records, const Gathered& cells,
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

  const auto cells_on = [&](Clock clock) {
    Cells inclusive = gather(records, stages, clock);
    Cells exclusive = exclusive_of(inclusive, stages, records.size());
    return Gathered{std::move(inclusive), std::move(exclusive)};
  };
  const Gathered stream = cells_on(Clock::stream);
  const Gathered host = cells_on(Clock::host);
  add_stages(out, records, stream, stages, Clock::stream, slowest, valid);
  add_stages(out, records, host, stages, Clock::host, slowest, valid);
  add_tags(out, records, stages);

  out.clock = any_valid(stream.inclusive, stages.size()) ? Clock::stream : Clock::host;
  const Gathered& compared = out.clock == Clock::stream ? stream : host;
  out.own = spread_of(own_times(compared, stages, records.size()), records, valid);
  if (!valid.empty()) out.own.median = Middle(valid).median();
  out.culprit = find_culprit(records, compared, stages, out.own, out.wall.max);
  return out;
}

std::string exclusive_name(std::string_view parent) { return std::string(parent) + "_other"; }

}  // namespace laggard::core
