#include "tests/unit/store/sample.h"

#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "daemon/base/value.h"

namespace laggard::test {
namespace {

// Text of a double that differs whenever a bit differs.
struct Bits {
  double value;
};

std::ostream& operator<<(std::ostream& out, Bits number) {
  return out << number.value << "#" << std::hex << std::bit_cast<std::uint64_t>(number.value) << std::dec
             << " ";
}

std::ostream& operator<<(std::ostream& out, const core::Spread& spread) {
  return out << spread.present << " " << Bits{spread.min} << Bits{spread.median} << Bits{spread.mean}
             << Bits{spread.max} << spread.min_rank << " " << spread.max_rank << "\n";
}

std::ostream& operator<<(std::ostream& out, const core::DeliveryCounts& counts) {
  return out << counts.stored << " " << counts.duplicate << " " << counts.conflict << " " << counts.late
             << " " << counts.rejected << " " << counts.dropped << " " << counts.invalid_values;
}

}  // namespace

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "laggard-store-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TempDir::~TempDir() { std::filesystem::remove_all(path_); }

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Sample::Sample()
    : layout_(layouts.intern({.stream = {"forward", "backward"},
                              .host = {"forward"},
                              .calls = {"forward"},
                              .counts = {"tokens"},
                              .int_values = {},
                              .values = {"loss"}})) {}

core::Writes Sample::facts() const {
  core::Writes writes;
  writes.runs.push_back({.id = 1, .name = "job", .created = 1'000});
  writes.attempts.push_back({.id = kAttempt,
                             .run = 1,
                             .attempt = 1,
                             .world_size = 4,
                             .first_received = 1'000,
                             .last_received = 2'000});
  core::StageTable stages;
  stages.intern("forward");
  stages.intern("backward");
  stages.set_kind(kBackward, core::StageKind::sync, core::Knowledge::profile);
  writes.stages.emplace_back(kAttempt, std::vector<core::Stage>(stages.all().begin(), stages.all().end()));
  for (LayoutId id = 0; id < layouts.size(); ++id) writes.layouts.emplace_back(id, &layouts[id]);
  return writes;
}

core::StepRecords& Sample::add_records(Step step, const std::vector<Rank>& ranks) {
  core::StepRecords& records = *records_.emplace_back(std::make_unique<core::StepRecords>(step));
  for (const Rank rank : ranks) {
    const double base = static_cast<double>(step) + rank / 7.0;
    const std::vector<double> doubles{100 + base, 60 + base, 30 + base, 61 + base, base / 3};
    const std::vector<std::int64_t> ints{4, step * 1'000 + rank};
    const std::vector<std::int64_t> samples{step * 64 + rank, -1};
    records.add({.step = step,
                 .rank = rank,
                 .layout = &layouts[layout_],
                 .doubles = doubles,
                 .ints = ints,
                 .sample_indices = samples},
                layout_);
  }
  return records;
}

core::StepRow& Sample::add_step(Step step, const std::vector<Rank>& ranks, core::Writes* writes) {
  const core::StepRecords& records = add_records(step, ranks);
  core::StepRow& row = writes->steps.emplace_back();
  row.attempt = kAttempt;
  row.view = view(step);
  for (std::uint32_t block = 0; block < records.block_count(); ++block)
    if (!records.block(block)->empty()) row.blocks.emplace_back(block, records.block(block));
  return row;
}

std::shared_ptr<core::StepView> Sample::view(Step step) {
  const auto base = static_cast<double>(step);
  auto view = std::make_shared<core::StepView>();
  core::StepBreakdown& breakdown = view->breakdown;
  breakdown.step = step;
  breakdown.present = 3;
  breakdown.wall = {.present = 3,
                    .min = base,
                    .median = base + 0.1,
                    .mean = base + 1.0 / 3,
                    .max = base + 9,
                    .max_rank = 2,
                    .min_rank = 1};
  breakdown.slowest = 2;
  breakdown.near_tie = true;
  breakdown.clock = core::Clock::host;
  breakdown.own = {.present = 2,
                   .min = base / 3,
                   .median = base / 2,
                   .mean = base / 1.9,
                   .max = base,
                   .max_rank = 1,
                   .min_rank = 0};
  breakdown.culprit =
      core::Culprit{.rank = 1, .own_excess_ms = base / 2, .stage = kForward, .stage_excess_ms = base / 4};
  breakdown.stages = {
      {.stage = kForward,
       .clock = core::Clock::stream,
       .spread = {.present = 3, .min = 1.5, .median = 2.5, .mean = 2.75, .max = 4.5, .max_rank = 2},
       .slowest_ms = 4.5,
       .slowest_exclusive_ms = -0.5,
       .invalid = 1,
       .null = 2},
      {.stage = kBackward, .clock = core::Clock::stream, .spread = {}, .slowest_ms = kNull, .null = 3},
      {.stage = kForward,
       .clock = core::Clock::host,
       .spread = {.present = 1, .min = 7, .median = 7, .mean = 7, .max = 7, .max_rank = 3, .min_rank = 3},
       .slowest_ms = -3},
  };
  breakdown.invalid_values = 5;
  breakdown.tags = {"checkpoint", "\"quoted\" \xc3\xa9"};
  breakdown.aside = true;
  view->state = core::StepState::partial;
  view->expected = 4;
  view->missing = {3};
  view->missing_count = 1;
  view->first_received = 1'700'000'000'000;
  view->settled_at = 1'700'000'000'500;
  return view;
}

std::string describe(const core::StepView& view) {
  const core::StepBreakdown& step = view.breakdown;
  std::ostringstream out;
  out << "step " << step.step << " " << core::name_of(view.state) << " " << step.present << " of "
      << view.expected << " missing " << view.missing_count;
  for (const Rank rank : view.missing) out << " " << rank;
  out << " first " << view.first_received << " settled " << view.settled_at << "\nwall " << step.wall
      << "slowest " << (step.slowest ? std::to_string(*step.slowest) : "none") << " tie " << step.near_tie
      << " clock " << core::name_of(step.clock) << "\nown " << step.own << "culprit ";
  if (step.culprit)
    out << step.culprit->rank << " " << Bits{step.culprit->own_excess_ms} << step.culprit->stage << " "
        << Bits{step.culprit->stage_excess_ms};
  out << "\ninvalid " << step.invalid_values << " aside " << step.aside;
  for (const std::string& tag : step.tags) out << " [" << tag << "]";
  for (const core::StageBreakdown& stage : step.stages)
    out << "\nstage " << stage.stage << " " << core::name_of(stage.clock) << " " << Bits{stage.slowest_ms}
        << Bits{stage.slowest_exclusive_ms} << stage.invalid << " " << stage.null << " " << stage.spread;
  return out.str();
}

std::string describe(const core::StepRecords& records, const LayoutTable& layouts) {
  std::ostringstream out;
  for (const RecordView& record : records.by_rank(layouts)) {
    out << "step " << record.step << " rank " << record.rank << ": ";
    for (const auto* names : {&record.layout->stream, &record.layout->host, &record.layout->calls,
                              &record.layout->counts, &record.layout->int_values, &record.layout->values})
      for (const std::string& name : *names) out << name << " ";
    for (const double number : record.doubles) out << Bits{number};
    for (const std::int64_t number : record.ints) out << number << " ";
    for (const std::int64_t number : record.sample_indices) out << "s" << number << " ";
    if (record.rest != nullptr) {
      for (const Histogram& histogram : record.rest->histograms)
        for (const auto& [key, count] : histogram.bins)
          out << histogram.name << "." << key << "=" << count << " ";
      for (const std::string& tag : record.rest->tags) out << "[" << tag << "] ";
      out << record.rest->extra;
    }
    out << "\n";
  }
  return out.str();
}

std::string describe(const core::RankRow& row) {
  std::ostringstream out;
  out << row.attempt << " " << row.rank << " " << row.settings << " " << row.host << " " << row.ended << " "
      << row.finished << " " << (row.last_step ? std::to_string(*row.last_step) : "none") << " "
      << row.last_received << " " << row.records << " " << Bits{row.last_wall_ms};
  return out.str();
}

std::string describe(const core::SourceRow& row) {
  std::ostringstream out;
  out << row.key << " " << row.run << " " << row.rank << " " << row.id << " " << row.host << " " << row.origin
      << " " << row.pid << " " << row.started_unix_ms << " " << row.committed_seq << " " << row.base_offset
      << " " << row.attempt_offset << " " << row.attempt << " " << row.gone << " " << row.counts;
  for (const core::SeqRange& range : row.lost) out << " lost " << range.first << "-" << range.last;
  return out.str();
}

}  // namespace laggard::test
