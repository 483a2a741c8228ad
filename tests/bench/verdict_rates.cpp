// How often the verdict is right, over jobs whose truth is known. Prints the table of docs/verdict.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/core/breakdown.h"
#include "daemon/core/change_point.h"
#include "daemon/core/live_verdict.h"
#include "tests/support/labelled_jobs.h"

namespace laggard::bench {
namespace {

using core::Verdict;
using core::VerdictKind;
using test::JobSpec;
using test::LabelledJob;
using test::Trouble;

constexpr Step kFirst = core::kWarmUpSteps + 1;

struct Tally {
  std::size_t jobs = 0, named_right = 0, named_wrong = 0, nobody = 0, stage_right = 0, group_right = 0;
  std::array<std::size_t, 7> kinds{};
  std::vector<double> slowdown_errors, turned_errors;
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return NAN;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

// What the collector says while the job runs, or `laggard verdict` over all of it.
Verdict verdict_on(LabelledJob& job, bool live_view) {
  const JobSpec& spec = job.spec();
  core::LiveVerdict live;
  core::VerdictWindow window({.judged = 0, .recent = core::kLiveStepsRecent, .kept = 0});
  for (Rank rank = 0; rank < spec.ranks; ++rank) live.learn(rank, job.settings(rank), "");
  for (Step number = 1; number <= spec.steps; ++number) {
    const core::StepRecords records = job.step(number);
    core::StepView step{.breakdown = core::break_down(records, job.layouts(), job.stages())};
    step.state = records.size() < spec.ranks ? core::StepState::partial : core::StepState::complete;
    if (live_view)
      live.put(step);
    else if (number >= kFirst)
      window.put(core::own_of(step.breakdown));
  }
  return live_view ? live.view(job.stages())->verdict : window.judge(job.placement());
}

void judge(const JobSpec& spec, bool live_view, Tally& tally) {
  LabelledJob job(spec);
  const Verdict verdict = verdict_on(job, live_view);
  ++tally.jobs;
  ++tally.kinds[static_cast<std::size_t>(verdict.kind)];
  tally.slowdown_errors.push_back(std::abs(verdict.slowdown / job.true_slowdown(kFirst) - 1));
  if (!verdict.held.has_value()) {
    ++tally.nobody;
    return;
  }
  const core::Held& held = *verdict.held;
  if (held.ranks != job.guilty()) {
    ++tally.named_wrong;
    return;
  }
  ++tally.named_right;
  tally.stage_right +=
      held.stage < job.stages().size() && job.stages()[held.stage].name == job.guilty_stage();
  tally.group_right += held.group.has_value() ? 1 : 0;
  if (job.turned().has_value() && held.since.has_value())
    tally.turned_errors.push_back(std::abs(static_cast<double>(*held.since - *job.turned())));
}

void print_row(const std::string& name, const Tally& tally) {
  std::string kinds;
  for (std::size_t kind = 0; kind < tally.kinds.size(); ++kind)
    if (tally.kinds[kind] > 0)
      kinds += (kinds.empty() ? "" : ", ") + std::string(core::name_of(static_cast<VerdictKind>(kind))) +
               " " + std::to_string(tally.kinds[kind]);
  std::printf("| %s | %zu | %zu | %zu | %zu | %s | %.1f %% | ", name.c_str(), tally.jobs, tally.named_right,
              tally.named_wrong, tally.stage_right, kinds.c_str(),
              100 * quantile(tally.slowdown_errors, 0.95));
  if (tally.turned_errors.empty())
    std::printf("|\n");
  else
    std::printf(
        "%zu of %zu within 5, 95 %%: %.0f |\n",
        static_cast<std::size_t>(std::ranges::count_if(tally.turned_errors, [](double e) { return e <= 5; })),
        tally.turned_errors.size(), quantile(tally.turned_errors, 0.95));
  std::fflush(stdout);
}

struct Case {
  Trouble trouble;
  std::uint32_t steps;
  double noise, slow, autocorrelation;
  bool live_view = true;
};

// False alarms of the change point and of the episode on steady series.
void print_change_alarms(int jobs) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const double r : {0.0, 0.5, 0.8})
    for (const std::size_t n : {50U, 200U, 1000U}) {
      int alarms = 0, episodes = 0;
      for (int job = 0; job < 10 * jobs; ++job) {
        std::vector<double> series(n);
        double noise = 0;
        for (double& value : series) value = noise = r * noise + normal(random);
        alarms += core::find_change(series).has_value() ? 1 : 0;
        episodes += core::find_episode(series).has_value() ? 1 : 0;
      }
      std::printf("| %.1f | %zu | %.2f %% | %.2f %% |\n", r, n, 10.0 * alarms / jobs, 10.0 * episodes / jobs);
    }
}

int run(int jobs) {
  std::printf(
      "| trouble | verdict | noise | slow | r | steps | jobs | right | wrong | stage | verdicts | S off by, "
      "95 %% | "
      "since |\n");
  const std::array<Case, 31> cases{{{Trouble::none, 60, 0.01, 0, 0},
                                    {Trouble::none, 60, 0.02, 0, 0},
                                    {Trouble::none, 60, 0.05, 0, 0},
                                    {Trouble::none, 60, 0.05, 0, 0.5},
                                    {Trouble::none, 30, 0.05, 0, 0.8},
                                    {Trouble::none, 15, 0.05, 0, 0},
                                    {Trouble::slow_rank, 60, 0.02, 0.02, 0},
                                    {Trouble::slow_rank, 60, 0.02, 0.05, 0},
                                    {Trouble::slow_rank, 60, 0.02, 0.10, 0},
                                    {Trouble::slow_rank, 60, 0.05, 0.10, 0},
                                    {Trouble::slow_rank, 60, 0.02, 0.50, 0},
                                    {Trouble::slow_rank, 30, 0.02, 0.10, 0.5},
                                    {Trouble::slow_host, 60, 0.02, 0.05, 0},
                                    {Trouble::slow_host, 60, 0.02, 0.10, 0},
                                    {Trouble::slow_stage, 60, 0.02, 0.10, 0},
                                    {Trouble::rotating, 60, 0.02, 0.20, 0},
                                    {Trouble::inside_sync, 60, 0.01, 0.20, 0},
                                    {Trouble::inside_sync, 60, 0.01, 1.00, 0},
                                    {Trouble::turns_slow, 100, 0.02, 0.10, 0},
                                    {Trouble::turns_slow, 100, 0.02, 0.05, 0},
                                    {Trouble::missing, 60, 0.02, 0.10, 0},
                                    {Trouble::warm_up, 60, 0.01, 0, 0},
                                    {Trouble::pauses, 110, 0.02, 0.05, 0},
                                    {Trouble::pauses, 110, 0.02, 0.10, 0},
                                    {Trouble::graded, 60, 0.02, 0.15, 0},
                                    {Trouble::graded, 60, 0.02, 0.30, 0},
                                    {Trouble::graded, 60, 0.02, 0.70, 0},
                                    {Trouble::none, 510, 0.02, 0, 0, false},
                                    {Trouble::none, 510, 0.05, 0, 0.8, false},
                                    {Trouble::turns_slow, 510, 0.02, 0.05, 0, false},
                                    {Trouble::pauses, 510, 0.02, 0.05, 0, false}}};
  for (const Case& c : cases) {
    Tally tally;
    for (int job = 0; job < jobs; ++job) {
      constexpr std::array<std::uint32_t, 9> kSizes{4, 8, 16, 32, 64, 128, 256, 512, 2};
      const std::size_t sizes = c.trouble == Trouble::none ? 9 : 8;  // two ranks have no place to be slow in
      const auto seed = static_cast<std::uint64_t>(1 + job);
      std::uint32_t ranks = kSizes[static_cast<std::size_t>(job) % sizes];
      if (c.trouble == Trouble::slow_host) ranks = std::max(ranks, 16U);
      judge({c.trouble, ranks, c.steps, c.noise, c.slow, c.autocorrelation, seed}, c.live_view, tally);
    }
    std::array<char, 120> name{};
    std::snprintf(name.data(), name.size(), "%s | %s | %.0f %% | %.0f %% | %.1f | %u",
                  std::string(test::name_of(c.trouble)).c_str(), c.live_view ? "live" : "window",
                  100 * c.noise, 100 * c.slow, c.autocorrelation,
                  c.steps - static_cast<std::uint32_t>(kFirst) + 1);
    print_row(name.data(), tally);
  }
  std::printf("\n| r | steps | changes found in steady series | episodes |\n");
  print_change_alarms(jobs);
  return 0;
}

}  // namespace
}  // namespace laggard::bench

int main(int argc, char** argv) { return laggard::bench::run(argc > 1 ? std::atoi(argv[1]) : 200); }
