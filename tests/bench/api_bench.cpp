// What the library costs the thread that calls it. docs/overhead.md has the figures and says how to read
// them.
#include <laggard/laggard.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "agent/api/recorder.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStagesPerStep = 10;
constexpr int kSamples = 20'000;
constexpr int kPacedSamples = 200;
constexpr std::chrono::milliseconds kPace{30};  // longer than the delivery gathers records
// Reading the clock costs as much as half a stage: so many are timed together.
constexpr int kTimedTogether = 10;

double percentile(std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * share)];
}

// Runs `once` many times, with a pause before each, and prints what one of the `units` in it takes.
template <typename Once>
void measure(const char* setting, const char* unit, int units, Once&& once, int samples = kSamples,
             std::chrono::microseconds pause = {}) {
  std::vector<double> ns;
  ns.reserve(static_cast<std::size_t>(samples));
  for (int i = 0; i < samples; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto begin = Clock::now();
    once();
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    ns.push_back(taken.count() / units);
  }
  std::ranges::sort(ns);
  std::printf("%-22s %-12s %9.1f %9.1f\n", setting, unit, percentile(ns, 0.5), percentile(ns, 0.99));
}

void stages(int stage) {
  for (int i = 0; i < kTimedTogether; ++i) {
    laggard_stage_begin(stage);
    laggard_stage_end(stage);
  }
}

void step(int first_stage) {
  laggard_step_begin(LAGGARD_NEXT_STEP);
  for (int i = 0; i < kStagesPerStep; ++i) {
    laggard_stage_begin(first_stage + i);
    laggard_stage_end(first_stage + i);
  }
  laggard_step_end();
}

void measure_calls(const char* setting) {
  int first = -1;
  for (int i = 0; i < kStagesPerStep; ++i) {
    const int id = laggard_stage_id(("stage " + std::to_string(i)).c_str(), LAGGARD_KIND_DEFAULT);
    if (i == 0) first = id;
  }
  laggard_step_begin(LAGGARD_NEXT_STEP);
  measure(setting, "stage", kTimedTogether, [&] { stages(first); });
  laggard_step_end();
  measure(setting, "step of 10", 1, [&] { step(first); });
  // As between real steps: the delivery sleeps, the caches are cold, and somebody has to be woken.
  measure(
      setting, "step, paced", 1, [&] { step(first); }, kPacedSamples, kPace);
}

void measure_with(const char* setting, const char* ingest) {
  laggard_options options = LAGGARD_OPTIONS_INIT;
  options.run = "api_bench";
  options.collector = ingest;
  if (laggard_init(&options) != LAGGARD_OK) return;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  measure_calls(setting);
  laggard_end(2000);
}

// Nobody empties the ring, so that every record has to drop one.
void measure_full_ring() {
  using laggard::agent::Recorder;
  laggard::agent::Names names;
  laggard::agent::Ring ring(laggard::limits::kApiRingBytes / sizeof(std::uint64_t));
  laggard::agent::CallCounts counts;
  Recorder recorder(names, ring, counts, 0);
  for (int i = 0; i < kStagesPerStep; ++i) (void)names.stages.intern("stage " + std::to_string(i));
  const auto now = [] { return Clock::now().time_since_epoch().count(); };
  const auto one_step = [&] {
    recorder.step_begin(-1, now());
    for (int i = 0; i < kStagesPerStep; ++i) {
      recorder.stage_begin(i, now());
      recorder.stage_end(i, now());
    }
    recorder.step_end(now());
  };
  for (int i = 0; i < 2 * kSamples; ++i) one_step();
  measure("ring full", "step of 10", 1, one_step);
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%-22s %-12s %9s %9s\n", "ns on the caller", "per", "p50", "p99");
  volatile int sink = 0;
  measure("empty loop", "iteration", kTimedTogether, [&] {
    for (int i = 0; i < kTimedTogether; ++i) sink = i;
  });
  measure("a look at the clock", "call", kTimedTogether, [&] {
    for (int i = 0; i < kTimedTogether; ++i) (void)Clock::now();
  });
  ::setenv("LAGGARD_DISABLED", "1", 1);
  measure_calls("disabled");
  ::unsetenv("LAGGARD_DISABLED");
  measure_with("collector absent", "tcp://127.0.0.1:9");
  if (argc > 1) measure_with("collector there", argv[1]);
  measure_full_ring();
  return 0;
}
