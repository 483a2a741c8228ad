#include "daemon/core/report.h"

#include <gtest/gtest.h>

#include "tests/support/records.h"

namespace laggard::core {
namespace {

using test::step_of;
using test::TestRecord;

class ReportTest : public ::testing::Test {
 protected:
  RunReport report(const std::vector<std::vector<TestRecord>>& steps, Window window = {}) {
    for (const auto& records : steps)
      for (const TestRecord& record : records)
        for (const auto& [name, time] : record.stream) stages.intern(name);
    ReportBuilder builder({.run = run,
                           .attempt = 1,
                           .world_size = world_size,
                           .settings = settings,
                           .known_ranks = known_ranks},
                          stages, layouts, profile, window);
    for (const auto& records : steps) builder.add(step_of(records, layouts));
    return builder.finish();
  }
  const StageRow* row(const RunReport& report, const std::string& name) {
    for (const StageRow& entry : report.stages)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  LayoutTable layouts;
  StageTable stages;
  Profile profile;
  std::string run = "job";
  std::uint32_t world_size = 2;
  std::vector<std::pair<Rank, std::string>> settings{{0, R"({"first_step":1,"global_batch":32})"}};
  std::vector<Rank> known_ranks{0, 1};
};

TEST_F(ReportTest, FiguresAreOfEachStepsSlowestRank) {
  const RunReport r = report({{{.rank = 0, .step = 1, .wall_ms = 1000, .stream = {{"f", 100}}},
                               {.rank = 1, .step = 1, .wall_ms = 2000, .stream = {{"f", 200}, {"g", 40}}}},
                              {{.rank = 0, .step = 2, .wall_ms = 3000, .stream = {{"f", 300}}},
                               {.rank = 1, .step = 2, .wall_ms = 1000, .stream = {{"f", 900}}}}});
  EXPECT_DOUBLE_EQ(r.max_rank_wall_ms, 2500);
  EXPECT_DOUBLE_EQ(r.largest_rank_mean_ms, 2000);  // rank 0: (1000 + 3000) / 2, rank 1: 1500
  EXPECT_DOUBLE_EQ(r.samples_per_s, 32 / 2.5);
  EXPECT_DOUBLE_EQ(row(r, "f")->mean_ms, 250);
  EXPECT_EQ(row(r, "f")->present, 2U);
  EXPECT_DOUBLE_EQ(row(r, "g")->mean_ms, 20);  // absent on the second step's slowest rank: 0, and said so
  EXPECT_EQ(row(r, "g")->present, 1U);
  ASSERT_EQ(r.rank_walls.size(), 2U);
  EXPECT_DOUBLE_EQ(r.rank_walls[1].mean_ms, 1500);
}

TEST_F(ReportTest, ANullStageIsNotZero) {
  const RunReport r = report({{{.rank = 0, .step = 1, .wall_ms = 10, .stream = {{"f", kNull}}}},
                              {{.rank = 0, .step = 2, .wall_ms = 10, .stream = {{"f", 4}}}}});
  EXPECT_DOUBLE_EQ(row(r, "f")->mean_ms, 4);
  EXPECT_EQ(row(r, "f")->present, 1U);
}

// A12: warm-up by the configured first step; steps with checkpoint or eval are left out and listed.
TEST_F(ReportTest, TheSteadyWindow) {
  settings = {{0, R"({"first_step":4,"last_step":12})"}};
  world_size = 1;
  const double walls[] = {90000, 6000, 5000, 1004, 1005, 1006, 1007, 43008, 1009, 1010, 8011, 1012};
  std::vector<std::vector<TestRecord>> steps;
  for (Step step = 1; step <= 12; ++step) {
    TestRecord record{.rank = 0, .step = step, .wall_ms = walls[step - 1], .stream = {{"forward", 400}}};
    if (step == 8) record.stream.emplace_back("checkpoint_save", 42000);
    if (step == 11) record.stream.emplace_back("eval", 7000);
    steps.push_back({record});
  }
  const RunReport r = report(steps);
  EXPECT_EQ(r.steps, 7U);
  EXPECT_DOUBLE_EQ(r.max_rank_wall_ms, 1007.5714285714286);
  EXPECT_DOUBLE_EQ(r.all_steps_mean_ms, 13256.0);
  EXPECT_DOUBLE_EQ(r.all_steps_median_ms, 1011.0);
  EXPECT_EQ(r.left_out.aside, (std::vector<Step>{8, 11}));
  EXPECT_EQ(r.left_out.before, 3U);
  EXPECT_EQ(r.window_from, "configured");
  EXPECT_EQ(report(steps, {.from = 1, .to = 3}).max_rank_wall_ms, (90000.0 + 6000 + 5000) / 3);
}

TEST_F(ReportTest, WithoutAWindowTheFirstTenStepsAreLeftOut) {
  settings.clear();
  std::vector<std::vector<TestRecord>> steps;
  for (Step step = 1; step <= 10; ++step) steps.push_back({{.rank = 0, .step = 5 * step, .wall_ms = 100}});
  EXPECT_EQ(report(steps).steps, 10U);  // there would be nothing left
  steps.push_back({{.rank = 0, .step = 99, .wall_ms = 7}});
  const RunReport r = report(steps);
  EXPECT_EQ(r.steps, 1U);
  EXPECT_EQ(r.max_rank_wall_ms, 7);
  EXPECT_EQ(r.from, 99);
}

TEST_F(ReportTest, OnlyStepsWithEveryReportingRankCount) {
  const RunReport r = report({{{.rank = 0, .step = 1, .wall_ms = 10}, {.rank = 1, .step = 1, .wall_ms = 20}},
                              {{.rank = 0, .step = 2, .wall_ms = 99}}});
  EXPECT_EQ(r.steps, 1U);
  EXPECT_EQ(r.left_out.incomplete, std::vector<Step>{2});
  EXPECT_DOUBLE_EQ(r.max_rank_wall_ms, 20);
}

TEST_F(ReportTest, RanksThatNeverReportedAreNamed) {
  world_size = 4;
  known_ranks = {1};
  const RunReport r = report({{{.rank = 1, .step = 1, .wall_ms = 10}}});
  EXPECT_EQ(r.never_reported, (std::vector<Rank>{0, 2, 3}));
  EXPECT_EQ(r.steps, 1U);
}

TEST_F(ReportTest, ExclusiveRowsAndTheProfilesOrder) {
  profile.parents = {{"a", "whole"}, {"b", "whole"}};
  profile.exclusive_names = {{"whole", "rest_of_it"}};
  profile.stage_order = {"b", "rest_of_it", "whole"};
  const RunReport r =
      report({{{.rank = 0, .step = 1, .wall_ms = 10, .stream = {{"whole", 9}, {"a", 2}, {"b", 4}}}},
              {{.rank = 0, .step = 2, .wall_ms = 10, .stream = {{"whole", 9}, {"a", 6}, {"b", 4}}}}});
  std::vector<std::string> names;
  for (const StageRow& entry : r.stages) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "rest_of_it", "whole", "a"}));
  EXPECT_DOUBLE_EQ(row(r, "rest_of_it")->mean_ms, 1);  // 3 and -1
  EXPECT_EQ(row(r, "rest_of_it")->overlaps, 1U);
  EXPECT_EQ(row(r, "a")->depth, 1);
}

TEST_F(ReportTest, RatiosAreOfSumsAndNeverOfNothing) {
  profile.ratios = {{"padding %", "valid", "slots", true}, {"lost %", "lost", "slots", false}};
  const RunReport r =
      report({{{.rank = 0, .step = 1, .wall_ms = 10, .counts = {{"valid", 10}, {"slots", 20}}},
               {.rank = 1, .step = 1, .wall_ms = 10, .counts = {{"valid", 80}, {"slots", 80}}}}});
  EXPECT_DOUBLE_EQ(r.ratios[0].percent, 10);
  EXPECT_EQ(state_of(r.ratios[1].percent), ValueState::absent);
}

TEST_F(ReportTest, SumsOfCountsDoNotWrapRound) {
  const RunReport r = report({{{.rank = 0, .step = 1, .wall_ms = 10, .counts = {{"n", INT64_MAX}}},
                               {.rank = 1, .step = 1, .wall_ms = 10, .counts = {{"n", 5}}}}});
  EXPECT_EQ(r.count_sums.at("n"), INT64_MAX);
}

// Two ranks, two steps; backward is where ranks wait for each other. Own times 60 and 90, then 70 and 70.
TEST_F(ReportTest, OwnTimesAndSlowdown) {
  profile.kinds = {{"backward", "sync"}};
  const RunReport r =
      report({{{.rank = 0, .step = 1, .wall_ms = 100, .stream = {{"f", 60}, {"backward", 40}}},
               {.rank = 1, .step = 1, .wall_ms = 100, .stream = {{"f", 90}, {"backward", 10}}}},
              {{.rank = 0, .step = 2, .wall_ms = 80, .stream = {{"f", 70}, {"backward", 10}}},
               {.rank = 1, .step = 2, .wall_ms = 80, .stream = {{"f", 70}, {"backward", 10}}}}});
  EXPECT_DOUBLE_EQ(r.max_own_ms, 80);
  EXPECT_DOUBLE_EQ(r.mean_own_ms, 72.5);
  EXPECT_DOUBLE_EQ(r.slowdown, 90 / 82.5);
}

// Rank 1 is slow, rank 0 is the slowest by wall; in the second step nobody is slow.
TEST_F(ReportTest, TheStagesOfTheCulpritStandBesideThoseOfTheSlowest) {
  stages.set_kind(stages.intern("backward"), StageKind::sync, Knowledge::profile);
  const auto of = [](Rank rank, Step step, double wall, double f, double backward) {
    return TestRecord{
        .rank = rank, .step = step, .wall_ms = wall, .stream = {{"f", f}, {"backward", backward}}};
  };
  const RunReport r =
      report({{of(0, 1, 101, 50, 50), of(1, 1, 100, 90, 10)}, {of(0, 2, 70, 50, 20), of(1, 2, 70, 50, 20)}});
  EXPECT_DOUBLE_EQ(row(r, "f")->mean_ms, 50);
  ASSERT_EQ(r.culprit_stages.size(), 2U);
  EXPECT_EQ(r.culprit_stages[1].name, "f");
  EXPECT_DOUBLE_EQ(r.culprit_stages[1].mean_ms, 70);
  EXPECT_EQ(r.culprit_stages[0].kind, StageKind::sync);
  EXPECT_DOUBLE_EQ(r.culprit_stages[0].mean_ms, 15);
}

TEST_F(ReportTest, BlocksAreOfTheStepsThatCount) {
  std::vector<std::vector<TestRecord>> steps;
  for (Step step = 1; step <= 21; ++step) {
    TestRecord record{.rank = 0, .step = step, .wall_ms = static_cast<double>(step)};
    if (step % 2 == 0) record.stream = {{"f", 10}};
    if (step == 7) record.stream = {{"eval", 1}};
    steps.push_back({record});
  }
  const RunReport r = report(steps);
  ASSERT_EQ(r.steps, 20U);
  EXPECT_EQ(r.wall_blocks.medians, (std::vector<double>{2.5, 7, 11.5, 15.5, 19.5}));  // 1-4, 5 6 8 9, 10-13
  EXPECT_EQ(row(r, "f")->blocks.means, (std::vector<double>{5, 5, 5, 5, 5}));
}

class MatchTest : public ReportTest {
 protected:
  // The same samples over two ranks, dealt out differently when `swapped`.
  RunReport run_with(const std::string& name, bool swapped, std::int64_t tokens = 50,
                     std::vector<std::int64_t> extra = {7, 8}) {
    run = name;
    std::vector<TestRecord> step{
        {.rank = 0, .step = 1, .wall_ms = 10, .counts = {{"valid_tokens", tokens}}, .samples = {1, 2}},
        {.rank = 1,
         .step = 1,
         .wall_ms = 10,
         .counts = {{"valid_tokens", 100 - tokens}},
         .samples = std::move(extra)}};
    if (swapped) std::swap(step[0].samples, step[1].samples);
    return report({step});
  }
};

TEST_F(MatchTest, TheSameWorkInAnotherDealPasses) {
  const Match match = match_runs({run_with("a", false, 50), run_with("b", true, 30)}, profile);
  EXPECT_TRUE(match.checked);
  EXPECT_TRUE(match.pass) << match.mismatches.at(0).what;
}

TEST_F(MatchTest, OtherSamplesFail) {
  const Match match = match_runs({run_with("a", false), run_with("b", false, 50, {7, 9})}, profile);
  ASSERT_EQ(match.mismatches.size(), 1U);
  EXPECT_EQ(match.mismatches[0].what, "sample indices");
  EXPECT_EQ(match.mismatches[0].where, "step 1: a and b differ");
  EXPECT_FALSE(match_runs({run_with("a", false, 50, {7, 7}), run_with("b", false, 50, {7})}, profile).pass);
}

TEST_F(MatchTest, OtherCountsAndSettingsFailUnlessTheyMay) {
  RunReport a = run_with("a", false), b = run_with("b", false);
  b.work[0].counts["valid_tokens"] = 99;
  b.settings = R"({"first_step":1,"global_batch":64})";
  const Match match = match_runs({a, b}, profile);
  ASSERT_EQ(match.mismatches.size(), 2U);
  EXPECT_EQ(match.mismatches[0].where, "step 1: a 100, b 99");
  EXPECT_EQ(match.mismatches[1].what, "setting global_batch");
  profile.may_differ = {"global_batch"};
  EXPECT_EQ(match_runs({a, b}, profile).mismatches.size(), 1U);
}

TEST_F(MatchTest, TwoAttemptsOfARunAreToldApart) {
  RunReport a = run_with("a", false), b = run_with("a", false, 50, {7, 9});
  b.attempt = 2;
  EXPECT_EQ(match_runs({a, b}, profile).mismatches.at(0).where, "step 1: a@1 and a@2 differ");
}

TEST_F(MatchTest, OneRunIsNotChecked) { EXPECT_FALSE(match_runs({run_with("a", false)}, profile).checked); }

}  // namespace
}  // namespace laggard::core
