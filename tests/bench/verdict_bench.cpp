// What the live verdict costs: taking a step into the window, and judging the window.
#include <benchmark/benchmark.h>

#include "daemon/core/breakdown.h"
#include "daemon/core/verdict_window.h"
#include "tests/support/labelled_jobs.h"

namespace laggard::bench {
namespace {

struct Full {
  explicit Full(const benchmark::State& state)
      : spec{.trouble = test::Trouble::slow_rank,
             .ranks = static_cast<std::uint32_t>(state.range(0)),
             .steps = static_cast<std::uint32_t>(state.range(1)),
             .slow = 0.3},
        job(spec),
        window({.judged = spec.steps, .kept = spec.steps}) {
    for (Step number = 1; number <= spec.steps; ++number) put(number);
  }
  void put(Step number) {
    // The same few steps again and again: making them up is most of the work.
    if (kept.size() < kKept)
      kept.push_back(own_of(break_down(job.step(number), job.layouts(), job.stages())));
    core::StepOwn step = kept[static_cast<std::size_t>(number) % kept.size()];
    step.step = number;
    window.put(step);
  }

  static constexpr std::size_t kKept = 64;
  test::JobSpec spec;
  test::LabelledJob job;
  core::VerdictWindow window;
  std::vector<core::StepOwn> kept;
};

void put_a_step(benchmark::State& state) {
  Full full(state);
  Step number = full.spec.steps;
  for (auto _ : state) full.put(++number);
}

void put_a_step_and_judge(benchmark::State& state) {
  Full full(state);
  const core::Placement placement = full.job.placement();
  Step number = full.spec.steps;
  for (auto _ : state) {
    full.put(++number);
    core::Verdict verdict = full.window.judge(placement);
    if (!verdict.held.has_value()) state.SkipWithError("nobody was named");
    benchmark::DoNotOptimize(verdict);
  }
}

// ranks, steps of the window; the live verdict is over 100.
void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "steps"})->Unit(benchmark::kMillisecond);
  for (const auto& [ranks, steps] : {std::pair{64, 100}, {1024, 100}, {1024, 1000}, {10'240, 100}})
    benchmark->Args({ranks, steps});
}
BENCHMARK(put_a_step)->Apply(sizes);
BENCHMARK(put_a_step_and_judge)->Apply(sizes);

}  // namespace
}  // namespace laggard::bench

BENCHMARK_MAIN();
