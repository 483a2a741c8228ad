// What the store can take and give: records of 14 stages on two clocks, 11 counts and 16 sample indices, as
// the end-to-end benchmark sends them. LAGGARD_BENCH_DIR says where the database goes; $TMPDIR otherwise.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/breakdown.h"
#include "daemon/store/reader.h"
#include "daemon/store/store.h"

namespace laggard {
namespace {

constexpr std::size_t kStages = 14, kCounts = 11, kSamples = 16;

std::filesystem::path bench_dir() {
  const char* asked = std::getenv("LAGGARD_BENCH_DIR");
  return (asked != nullptr ? std::filesystem::path(asked) : std::filesystem::temp_directory_path()) /
         "laggard-store-bench";
}

Layout make_layout() {
  Layout layout;
  for (std::size_t i = 0; i < kStages; ++i) {
    const std::string name = "stage_" + std::to_string(i);
    layout.stream.push_back(name);
    layout.host.push_back(name);
    layout.calls.push_back(name);
  }
  for (std::size_t i = 0; i < kCounts; ++i) layout.counts.push_back("count_" + std::to_string(i));
  return layout;
}

// A run of `world` ranks whose steps are made before the clock starts.
class Job {
 public:
  explicit Job(Rank world) : world_(world), id_(layouts_.intern(make_layout())) {
    for (const std::string& name : layouts_[id_].stream) stages_.intern(name);
  }

  std::vector<core::StepRecords> steps(Step from, std::size_t count) const {
    std::vector<core::StepRecords> made;
    for (std::size_t i = 0; i < count; ++i) {
      core::StepRecords& step = made.emplace_back(from + static_cast<Step>(i));
      for (Rank rank = 0; rank < world_; ++rank) add_record(rank, &step);
    }
    return made;
  }

  std::shared_ptr<core::StepView> view(const core::StepRecords& step) const {
    auto view = std::make_shared<core::StepView>();
    view->breakdown = core::break_down(step, layouts_, stages_);
    view->state = core::StepState::complete;
    view->expected = world_;
    view->first_received = 1;
    view->settled_at = 2;
    return view;
  }

  core::Writes facts() const {
    core::Writes writes;
    writes.runs.push_back({.id = 1, .name = "bench"});
    writes.attempts.push_back({.id = 1, .run = 1, .world_size = world_});
    writes.stages.emplace_back(1, std::vector<core::Stage>(stages_.all().begin(), stages_.all().end()));
    writes.layouts.emplace_back(id_, &layouts_[id_]);
    add_signs(0, &writes);
    return writes;
  }

  /// What goes with every group: the last signs of each rank and each source's committed number.
  void add_signs(Step last, core::Writes* writes) const {
    for (Rank rank = 0; rank < world_; ++rank) {
      writes->ranks.push_back({.attempt = 1, .rank = rank, .settings = settings_, .last_step = last});
      writes->sources.push_back({.key = rank + 1,
                                 .run = 1,
                                 .rank = rank,
                                 .id = "0123456789abcdef",
                                 .origin = "/data/job/rank.jsonl",
                                 .committed_seq = static_cast<std::uint64_t>(last)});
    }
  }

 private:
  void add_record(Rank rank, core::StepRecords* step) const {
    const Layout& layout = layouts_[id_];
    const auto seed = static_cast<double>(step->step() * 131 + rank * 17);
    std::vector<double> doubles{14'000.123 + seed};
    std::vector<std::int64_t> ints, samples;
    while (doubles.size() < layout.double_count())
      doubles.push_back(seed * 1.000'1 / static_cast<double>(doubles.size()));
    while (ints.size() < layout.int_count())
      ints.push_back(static_cast<std::int64_t>(ints.size()) * 37 + rank);
    while (samples.size() < kSamples)
      samples.push_back(step->step() * 64 + static_cast<Step>(samples.size()));
    step->add({.step = step->step(),
               .rank = rank,
               .layout = &layout,
               .doubles = doubles,
               .ints = ints,
               .sample_indices = samples},
              id_);
  }

  Rank world_;
  LayoutTable layouts_;
  LayoutId id_;
  core::StageTable stages_;
  std::string settings_ = "{\"text\": \"" + std::string(500, 'x') + "\"}";
};

/// A group commit of `group` steps of `world` ranks, as long as it goes: WAL, checkpoints and fsync included.
void commit_steps(benchmark::State& state) {
  const auto world = static_cast<Rank>(state.range(0));
  const auto group = static_cast<std::size_t>(state.range(1));
  std::filesystem::remove_all(bench_dir());
  store::Store store(bench_dir());
  const Job job(world);
  store.commit(job.facts());
  Step next = 1;
  for (auto _ : state) {
    state.PauseTiming();
    const std::vector<core::StepRecords> steps = job.steps(next, group);
    core::Writes writes;
    for (const core::StepRecords& step : steps) {
      core::StepRow& row = writes.steps.emplace_back();
      row = {.attempt = 1, .view = job.view(step)};
      for (std::uint32_t block = 0; block < step.block_count(); ++block)
        row.blocks.emplace_back(block, step.block(block));
    }
    next += static_cast<Step>(group);
    job.add_signs(next - 1, &writes);
    state.ResumeTiming();
    store.commit(writes);
  }
  const auto records = static_cast<double>(next - 1) * world;
  state.counters["records/s"] = benchmark::Counter(records, benchmark::Counter::kIsRate);
  state.counters["B/record"] = static_cast<double>(store.sizes().database_bytes) / records;
  state.counters["WAL MiB"] = static_cast<double>(store.sizes().wal_bytes >> 20);
}
BENCHMARK(commit_steps)
    ->ArgNames({"ranks", "steps"})
    ->Args({4, 256})
    ->Args({64, 1})
    ->Args({64, 16})
    ->Args({64, 128})
    ->Args({1024, 16})
    ->MinTime(2)
    ->UseRealTime();

/// What a report reads: every step with its records, decoded, in ascending order.
void read_steps(benchmark::State& state) {
  const auto world = static_cast<Rank>(state.range(0));
  const auto count = static_cast<Step>(state.range(1));
  std::filesystem::remove_all(bench_dir());
  store::Store store(bench_dir());
  const Job job(world);
  store.commit(job.facts());
  for (Step next = 1; next <= count; next += 100) {
    const std::vector<core::StepRecords> steps = job.steps(next, 100);
    core::Writes writes;
    for (const core::StepRecords& step : steps)
      writes.steps.push_back({.attempt = 1, .view = job.view(step), .blocks = {{0, step.block(0)}}});
    store.commit(writes);
  }
  store::Reader reader(store.database_path(), std::chrono::minutes(1));
  std::size_t records = 0;
  for (auto _ : state)
    reader.for_each_step(1, std::nullopt, std::nullopt,
                         [&](const core::StepRecords& step) { return (records += step.size()) > 0; });
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
}
BENCHMARK(read_steps)->ArgNames({"ranks", "steps"})->Args({64, 10'000})->Unit(benchmark::kMillisecond);

/// The newest 1,000 summaries: what the steps table of a screen reads.
void read_summaries(benchmark::State& state) {
  std::filesystem::remove_all(bench_dir());
  store::Store store(bench_dir());
  const Job job(4);
  store.commit(job.facts());
  const std::vector<core::StepRecords> steps = job.steps(1, 10'000);
  core::Writes writes;
  for (const core::StepRecords& step : steps) writes.steps.push_back({.attempt = 1, .view = job.view(step)});
  store.commit(writes);
  store::Reader reader(store.database_path(), std::chrono::minutes(1));
  for (auto _ : state) benchmark::DoNotOptimize(reader.steps(1, {.limit = 1000, .newest = true}));
}
BENCHMARK(read_summaries)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace laggard

BENCHMARK_MAIN();
