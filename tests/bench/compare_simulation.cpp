// How often `laggard compare` is wrong: made-up jobs whose truth is known, through the code that the
// collector runs. Prints the tables of docs/comparing.md:  compare_simulation [REPEATS [STEPS [SEED]]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "daemon/core/compare.h"
#include "tests/support/records.h"

namespace laggard {
namespace {

struct Part {
  const char* name;
  double ms;
};
constexpr Part kParts[] = {
    {"fetch", 50}, {"forward", 400}, {"backward_and_communication", 500}, {"optimizer", 50}};
constexpr std::size_t kStages = std::size(kParts);
constexpr std::size_t kChanged = 1;  // the effect is in `forward`
constexpr double kWall = 1000;
constexpr double kMemory = 0.7;       // lag-1 autocorrelation of the steps of a stage
constexpr double kStepNoise = 0.04;   // of each stage: about 2.6 % of the wall
constexpr std::size_t kMostRuns = 5;  // a side

struct World {
  const char* name;
  double run_effect = 0;  // sd between runs: one factor of the whole run, and one of each stage
  double drift = 0;       // of the wall, from one run to the next
  bool balanced = false;  // the order that --plan prints, or all base runs first
  double effect = 0;      // of the wall, in `forward`, on the new side
};

using Random = std::mt19937_64;

/// What the collector would report of one run, and the walls that a test on steps would take.
struct Simulated {
  core::ComparedRun run;
  std::vector<double> walls;
};

Simulated simulate(const World& world, bool newer, double place, std::size_t steps, Random& random) {
  std::normal_distribution<double> normal;
  const double run_factor = 1 + world.run_effect * normal(random) + world.drift * place;
  double stage_ms[kStages], noise[kStages];
  for (std::size_t i = 0; i < kStages; ++i) {
    stage_ms[i] = kParts[i].ms * run_factor * (1 + world.run_effect * normal(random));
    if (newer && i == kChanged) stage_ms[i] += world.effect * kWall;
    noise[i] = normal(random);
  }
  LayoutTable layouts;
  core::StageTable stages;
  for (const Part& part : kParts) stages.intern(part.name);
  core::ReportBuilder builder({.run = newer ? "new" : "base",
                               .world_size = 1,
                               .settings = {{0, R"({"first_step":1})"}},
                               .known_ranks = {0}},
                              stages, layouts, {}, {});
  Simulated out;
  for (std::size_t step = 1; step <= steps; ++step) {
    test::TestRecord record{.rank = 0, .step = static_cast<Step>(step)};
    for (std::size_t i = 0; i < kStages; ++i) {
      noise[i] = kMemory * noise[i] + std::sqrt(1 - kMemory * kMemory) * normal(random);
      const double ms = stage_ms[i] * (1 + kStepNoise * noise[i]);
      record.stream.emplace_back(kParts[i].name, ms);
      record.wall_ms += ms;
    }
    builder.add(test::step_of({record}, layouts));
    out.walls.push_back(record.wall_ms);
  }
  out.run.report = builder.finish();
  return out;
}

/// Which places of time the new runs have, of 2 x runs.
std::vector<bool> places_of(bool balanced, std::size_t runs) {
  std::vector<bool> newer;
  for (std::size_t i = 0; i < 2 * runs; ++i) {
    const bool second_four = i / 4 % 2 == 1, middle = i % 4 == 1 || i % 4 == 2;
    newer.push_back(balanced ? middle != second_four : i >= runs);
  }
  return newer;
}

/// The mistake to compare with: every step as if it were a repetition, in a two-sided rank test at 5 %.
bool naive_alarm(const std::vector<double>& base, const std::vector<double>& newer) {
  std::vector<std::pair<double, bool>> all;
  for (const double wall : base) all.emplace_back(wall, false);
  for (const double wall : newer) all.emplace_back(wall, true);
  std::sort(all.begin(), all.end());
  double rank_sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].second) rank_sum += static_cast<double>(i + 1);
  const auto n = static_cast<double>(base.size()), m = static_cast<double>(newer.size());
  const double z = (rank_sum - m * (n + m + 1) / 2) / std::sqrt(n * m * (n + m + 1) / 12);
  return std::abs(z) > 1.959964;
}

/// How often each thing was said.
struct Tally {
  int interval = 0, slower = 0, rank = 0, any_stage = 0, changed_stage = 0, other_stage = 0, fails = 0,
      naive = 0;
  double width = 0;
};

void count(const core::Comparison& comparison, Tally& tally) {
  const core::ComparedRow& wall = comparison.wall();
  tally.interval += wall.interval.low > 0 || wall.interval.high < 0 ? 1 : 0;
  tally.slower += wall.interval.low > 0 ? 1 : 0;
  tally.rank += wall.rank_p <= core::kSignificance ? 1 : 0;
  tally.fails += wall.interval.low > 0.03 * wall.base ? 1 : 0;
  tally.width += (wall.interval.high - wall.interval.low) / 2 / wall.base;
  bool changed = false, other = false;
  for (const std::size_t i : comparison.causes)
    (comparison.rows[i].name == kParts[kChanged].name ? changed : other) = true;
  tally.any_stage += changed || other ? 1 : 0;
  tally.changed_stage += changed ? 1 : 0;
  tally.other_stage += other ? 1 : 0;
}

Tally run_world(const World& world, std::size_t runs, int repeats, std::size_t steps, Random& random) {
  Tally tally;
  const std::vector<bool> places = places_of(world.balanced, runs);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<core::ComparedRun> base, newer;
    std::vector<double> base_walls, new_walls;
    for (std::size_t place = 0; place < places.size(); ++place) {
      Simulated made = simulate(world, places[place], static_cast<double>(place), steps, random);
      auto& walls = places[place] ? new_walls : base_walls;
      walls.insert(walls.end(), made.walls.begin(), made.walls.end());
      (places[place] ? newer : base).push_back(std::move(made.run));
    }
    tally.naive += naive_alarm(base_walls, new_walls) ? 1 : 0;
    count(core::compare_runs(std::move(base), std::move(newer), {}), tally);
  }
  return tally;
}

void print_row(const World& world, std::size_t runs, int repeats, const Tally& tally) {
  const auto share = [&](int n) { return 100.0 * n / repeats; };
  std::printf("| %s | %zu | %.1f | ", world.name, runs, share(tally.interval));
  if (core::smallest_rank_p(runs, runs) <= core::kSignificance)
    std::printf("%.1f", share(tally.rank));
  else
    std::printf("-");
  std::printf(" | %.1f | %.1f | %.1f | %.1f | ±%.1f | %.1f |\n", share(tally.any_stage),
              share(tally.changed_stage), share(tally.other_stage), share(tally.fails),
              100 * tally.width / repeats, share(tally.naive));
  std::fflush(stdout);
}

void simulate_all(int repeats, std::size_t steps, std::uint64_t seed) {
  const World worlds[] = {
      {.name = "no effect, runs alike"},
      {.name = "no effect, runs differ", .run_effect = 0.005},
      {.name = "no effect, drift, base first", .run_effect = 0.005, .drift = 0.003},
      {.name = "no effect, drift, order of --plan", .run_effect = 0.005, .drift = 0.003, .balanced = true},
      {.name = "+1 % in forward", .run_effect = 0.005, .balanced = true, .effect = 0.01},
      {.name = "+2 % in forward", .run_effect = 0.005, .balanced = true, .effect = 0.02},
      {.name = "+3 % in forward", .run_effect = 0.005, .balanced = true, .effect = 0.03},
      {.name = "+5 % in forward", .run_effect = 0.005, .balanced = true, .effect = 0.05},
  };
  std::printf(
      "| truth | runs a side | interval excludes 0 | rank p <= 5 %% | names a stage | names forward | names "
      "another | --fail-on 3%% exits 1 | interval, %% of wall | rank test on steps |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const World& world : worlds) {
    for (std::size_t runs = 1; runs <= kMostRuns; ++runs) {
      Random random(seed + runs);
      print_row(world, runs, repeats, run_world(world, runs, repeats, steps, random));
    }
  }
}

}  // namespace
}  // namespace laggard

int main(int argc, char** argv) {
  const auto argument = [&](int i, long otherwise) { return argc > i ? std::atol(argv[i]) : otherwise; };
  laggard::simulate_all(static_cast<int>(argument(1, 1000)), static_cast<std::size_t>(argument(2, 100)),
                        static_cast<std::uint64_t>(argument(3, 1)));
}
