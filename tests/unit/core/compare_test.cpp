#include "daemon/core/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace laggard::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr UnixMs kHour = 3'600'000;

/// Name, the stage that it is inside of, ms.
struct Stage3 {
  std::string name, parent;
  double ms = 0;
};

ComparedRun run_of(const std::string& name, double wall_ms, const std::vector<Stage3>& stages) {
  ComparedRun run;
  RunReport& report = run.report;
  report.run = name;
  report.ranks = {0};
  report.steps = 20;
  report.max_rank_wall_ms = wall_ms;
  report.all_steps_total_ms = 20 * wall_ms;
  report.settings = "{}";
  for (Step step = 11; step <= 30; ++step) report.work.push_back({.step = step});
  for (const Stage3& stage : stages)
    report.stages.push_back({.name = stage.name, .parent = stage.parent, .mean_ms = stage.ms, .present = 20});
  return run;
}

/// One of the four published runs, by the figures that its author printed.
ComparedRun published(const std::string& name, double wall, const std::vector<double>& ms) {
  const std::vector<std::pair<const char*, const char*>> stages = {
      {"batch_fetch_and_count", ""},
      {"prepare_inputs", ""},
      {"vision_forward", "forward_and_loss"},
      {"geometry_total", "forward_and_loss"},
      {"vggt_single", "geometry_total"},
      {"vggt_batched", "geometry_total"},
      {"language_forward", "forward_and_loss"},
      {"forward_and_loss", ""},
      {"backward_and_communication", "backward_and_engine_step"},
      {"deepspeed_step", "backward_and_engine_step"},
      {"backward_and_engine_step", ""}};
  std::vector<Stage3> rows;
  for (std::size_t i = 0; i < stages.size(); ++i) rows.push_back({stages[i].first, stages[i].second, ms[i]});
  return run_of(name, wall, rows);
}

Comparison published_comparison() {
  const auto run1 = published(
      "run1", 14674, {50.0, 1.0, 587.5, 4660.8, 2360.6, 2299.1, 2781.6, 8040.7, 6424.7, 87.5, 6512.3});
  const auto run2 = published(
      "run2", 15416, {49.6, 0.9, 574.1, 5437.0, 4451.5, 983.8, 2730.5, 8750.1, 6488.1, 87.7, 6575.9});
  const auto run3 = published(
      "run3", 15348, {49.7, 0.9, 576.8, 5388.6, 4314.9, 1072.0, 2730.8, 8704.8, 6464.9, 88.1, 6553.1});
  const auto run4 = published(
      "run4", 14716, {49.4, 1.0, 583.2, 4703.5, 2498.4, 2203.9, 2782.5, 8080.5, 6426.5, 87.5, 6514.2});
  return compare_runs({run1, run4}, {run2, run3}, {});
}

/// Runs of a job with the stages x and y, which together are its wall.
ComparedRun two_stages(const std::string& name, double x, double y) {
  return run_of(name, x + y, {{"x", "", x}, {"y", "", y}});
}

const ComparedRow& row_of(const Comparison& comparison, const std::string& name) {
  for (const ComparedRow& row : comparison.rows)
    if (row.name == name) return row;
  ADD_FAILURE() << "no row " << name;
  return comparison.rows.front();
}

std::vector<std::string> causes_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const std::size_t i : comparison.causes) names.push_back(comparison.rows[i].name);
  return names;
}

TEST(Compare, ThePublishedRunsNameWhatTheirAuthorFound) {
  const Comparison comparison = published_comparison();
  EXPECT_TRUE(comparison.match.pass);
  EXPECT_NEAR(comparison.wall().difference, 687, 1e-9);
  EXPECT_NEAR(comparison.wall().interval.low, 477.410656, 1e-5);
  EXPECT_NEAR(comparison.wall().spread, std::sqrt(1597), 1e-9);  // of 42 and 68 between two
  EXPECT_THAT(causes_of(comparison), ElementsAre("geometry_total", "language_forward",
                                                 "backward_and_communication", "vision_forward"));
  EXPECT_NEAR(row_of(comparison, "geometry_total").difference, 730.65, 1e-6);
  EXPECT_NEAR(row_of(comparison, "vggt_single").difference, 1953.7, 1e-6);
  EXPECT_NEAR(row_of(comparison, "vggt_batched").difference, -1223.6, 1e-6);
  EXPECT_NEAR(row_of(comparison, "backward_and_communication").difference, 50.9, 1e-6);
  EXPECT_NEAR(row_of(comparison, "language_forward").difference, -51.4, 1e-6);
  EXPECT_NEAR(row_of(comparison, "vision_forward").difference, -9.9, 1e-6);
  EXPECT_EQ(row_of(comparison, "batch_fetch_and_count").finding, Finding::inside);
  EXPECT_EQ(row_of(comparison, "deepspeed_step").finding, Finding::inside);
}

TEST(Compare, ThePublishedRunsInSentences) {
  const auto sentences = conclusions(published_comparison());
  ASSERT_EQ(sentences.size(), 7U);
  EXPECT_EQ(sentences[0],
            "New is slower by 0.687 s a step (14.695 to 15.382 s, +4.7 %; 95 % interval +0.477 to +0.897 s, "
            "+3.2 to +6.1 %).");
  EXPECT_EQ(sentences[1],
            "geometry_total carries it: +0.731 s (inside it: vggt_single +1.954, vggt_batched -1.224).");
  EXPECT_EQ(sentences[2], "backward_and_communication adds a little: +0.051 s, though its interval holds 0.");
  EXPECT_EQ(sentences[3], "language_forward got faster: -0.051 s.");
  EXPECT_EQ(sentences[4], "vision_forward got faster: -0.010 s, though its interval holds 0.");
  EXPECT_EQ(sentences[6],
            "Inside the spread between repetitions, so not named: batch_fetch_and_count, deepspeed_step.");
}

TEST(Compare, WithTwoRunsASideAStageIsNamedOnlyBeyondThreeSpreads) {
  const auto finding = [](double base1, double base2, double new1, double new2) {
    return row_of(compare_runs({two_stages("a", base1, 900), two_stages("b", base2, 900)},
                               {two_stages("c", new1, 990), two_stages("d", new2, 991)}, {}),
                  "x")
        .finding;
  };
  EXPECT_EQ(finding(10, 12, 13.9, 15), Finding::beyond);  // 3.45 against 3 x 1.141
  EXPECT_EQ(finding(10, 12, 13.8, 15), Finding::inside);  // 3.40 against 3 x 1.166
  EXPECT_EQ(finding(20, 21, 10, 11), Finding::beyond);    // faster is as good
  EXPECT_EQ(finding(10, 10, 10, 10), Finding::inside);
}

TEST(Compare, AStageIsNamedOnlyWhenEveryPairingAgrees) {
  const auto finding = [](double last) {
    std::vector<ComparedRun> base, newer;
    for (int i = 0; i < 10; ++i) {
      base.push_back(two_stages("a" + std::to_string(i), i < 9 ? 10 : last, 900));
      newer.push_back(two_stages("b" + std::to_string(i), 12.9, 900));
    }
    return row_of(compare_runs(base, newer, {}), "x").finding;
  };
  EXPECT_EQ(finding(12.8), Finding::beyond);
  EXPECT_EQ(finding(13.0), Finding::inside);  // 2.6 against 3 x 0.67, but one of a hundred pairings disagrees
}

TEST(Compare, NothingIsNamedWhenTheWallDidNotChange) {
  const Comparison comparison = compare_runs({two_stages("a", 100, 900), two_stages("b", 101, 950)},
                                             {two_stages("c", 200, 850), two_stages("d", 201, 800)}, {});
  EXPECT_EQ(row_of(comparison, "x").finding, Finding::beyond);
  EXPECT_EQ(comparison.wall().finding, Finding::inside);
  EXPECT_TRUE(comparison.causes.empty());
  EXPECT_THAT(conclusions(comparison)[1], HasSubstr("is inside the spread between repetitions"));
}

TEST(Compare, WhatIsLessThanAHundredthOfTheWallsDifferenceIsNotNamed) {
  const auto with = [](const std::string& name, double x, double small) {
    return run_of(name, x + small, {{"x", "", x}, {"small", "", small}});
  };
  const auto causes = [&](double small) {
    return causes_of(compare_runs({with("a", 100, 1), with("b", 100, 1)},
                                  {with("c", 200, 1 + small), with("d", 200, 1 + small)}, {}));
  };
  EXPECT_THAT(causes(0.9), ElementsAre("x"));
  EXPECT_THAT(causes(1.1), ElementsAre("x", "small"));
}

TEST(Compare, TheOuterStageIsNamedWhenThoseInsideCancelOut) {
  const auto nested = [](const std::string& name, double p, double q) {
    return run_of(name, p + q + 10, {{"outer", "", p + q}, {"p", "outer", p}, {"q", "outer", q}});
  };
  const auto causes = [&](double p, double q) {
    return causes_of(compare_runs({nested("a", 100, 100), nested("b", 100.1, 100)},
                                  {nested("c", p, q), nested("d", p + 0.1, q)}, {}));
  };
  EXPECT_THAT(causes(200, 100), ElementsAre("p"));
  EXPECT_THAT(causes(200, 60), ElementsAre("outer"));   // +100 and -40: 60 of 140 is left
  EXPECT_THAT(causes(200, 70), ElementsAre("p", "q"));  // 70 of 130 is
}

TEST(Compare, AStageWhoseOuterOneWasNotMeasuredStandsOnTop) {
  const auto lone = [](const std::string& name, double x) {
    return run_of(name, x + 10, {{"x", "unmeasured", x}});
  };
  EXPECT_THAT(causes_of(compare_runs({lone("a", 100), lone("b", 101)}, {lone("c", 200), lone("d", 201)}, {})),
              ElementsAre("x"));
}

TEST(Compare, AFailedMatchNamesNothing) {
  ComparedRun other = two_stages("d", 200, 900);
  other.report.settings = R"({"seed":7})";
  const Comparison comparison = compare_runs({two_stages("a", 100, 900), two_stages("b", 101, 900)},
                                             {two_stages("c", 201, 900), other}, {});
  EXPECT_FALSE(comparison.match.pass);
  EXPECT_TRUE(comparison.causes.empty());
  EXPECT_THAT(conclusions(comparison)[0], HasSubstr("did not do the same work"));
}

/// A run whose walls are tied, so that its stages are those of a rank that waits: forward, and backward with
/// the waiting in it.
ComparedRun tied(const std::string& name, double forward, double backward, double max_own) {
  ComparedRun run = run_of(name, forward + backward, {{"forward", "", forward}, {"backward", "", backward}});
  run.report.stages[1].kind = StageKind::sync;
  run.report.max_own_ms = max_own;
  run.report.mean_own_ms = forward;
  run.report.own_clock = Clock::stream;
  run.report.culprit_stages = {{.name = "micro_step", .mean_ms = forward + backward},
                               {.name = "forward", .mean_ms = max_own},
                               {.name = "backward", .kind = StageKind::sync, .mean_ms = 50}};
  return run;
}

TEST(Compare, WaitingThatIsSomebodysWorkIsNotToldAsWaiting) {
  // A rank's forward fell from 140 to 100 ms; the others' did not change, and they wait 40 ms less.
  const auto fixed = conclusions(compare_runs({tied("a", 100, 90, 140), tied("b", 100.1, 90, 140.1)},
                                              {tied("c", 100, 50, 100), tied("d", 100.1, 50, 100.1)}, {}));
  EXPECT_THAT(
      fixed[1],
      HasSubstr(
          "It is work that changed, not waiting: the largest own time of a rank fell by 0.0400 s, above "
          "all in forward, -0.0400 s there (laggard verdict a@1 says whose it was)"));
  const auto broken = conclusions(compare_runs({tied("a", 100, 50, 100), tied("b", 100.1, 50, 100.1)},
                                               {tied("c", 100, 90, 140), tied("d", 100.1, 90, 140.1)}, {}));
  EXPECT_THAT(broken[1],
              HasSubstr("grew by 0.0400 s, above all in forward, +0.0400 s there (laggard verdict c@1"));
  // The network got slower: nobody's own time changed.
  const auto network = conclusions(compare_runs({tied("a", 100, 50, 100), tied("b", 100.1, 50, 100.1)},
                                                {tied("c", 100, 90, 100), tied("d", 100.1, 90, 100.1)}, {}));
  // Everybody's forward got slower, and is named; the rest of the wall is the network's.
  const auto both = conclusions(compare_runs({tied("a", 100, 50, 100), tied("b", 100.1, 50, 100.1)},
                                             {tied("c", 140, 90, 140), tied("d", 140.1, 90, 140.1)}, {}));
  // More work, dealt out more evenly: they wait less.
  const auto evener = conclusions(compare_runs({tied("a", 200, 90, 300), tied("b", 200.1, 90, 300.1)},
                                               {tied("c", 280, 50, 340), tied("d", 280.1, 50, 340.1)}, {}));
  for (const auto& sentences : {network, both, evener})
    EXPECT_THAT(sentences, testing::Not(testing::Contains(HasSubstr("not waiting"))));
}

TEST(Compare, AStageOfOneSideIsNoDifferenceOfZero) {
  const Comparison comparison =
      compare_runs({two_stages("a", 100, 900), two_stages("b", 101, 900)},
                   {run_of("c", 1500, {{"x", "", 100}, {"y", "", 900}, {"again", "", 500}}),
                    run_of("d", 1501, {{"x", "", 101}, {"y", "", 900}, {"again", "", 500}})},
                   {});
  const ComparedRow& row = row_of(comparison, "again");
  EXPECT_TRUE(std::isnan(row.base));
  EXPECT_EQ(row.newer, 500);
  EXPECT_TRUE(std::isnan(row.difference));
  EXPECT_EQ(row.finding, Finding::unknown);
  EXPECT_THAT(caveats(comparison), testing::Contains(HasSubstr("again (stream, only in new: 0.500 s)")));
}

TEST(Compare, AStageOfSomeRunsIsShownByThoseThatHaveIt) {
  const Comparison comparison = compare_runs(
      {run_of("a", 1100, {{"x", "", 600}, {"again", "", 500}}), run_of("b", 601, {{"x", "", 601}})},
      {run_of("c", 1200, {{"x", "", 700}, {"again", "", 500}}),
       run_of("d", 1201, {{"x", "", 701}, {"again", "", 500}})},
      {});
  EXPECT_EQ(row_of(comparison, "again").base, 500);
  EXPECT_TRUE(std::isnan(row_of(comparison, "again").difference));
  EXPECT_THAT(caveats(comparison), testing::Contains(HasSubstr("again (stream, not in every run")));
}

TEST(Compare, OneRunOnASideHasAnIntervalAndNamesNothing) {
  const Comparison comparison =
      compare_runs({two_stages("a", 100, 900)}, {two_stages("b", 200, 900), two_stages("c", 201, 900)}, {});
  EXPECT_TRUE(comparison.wall().interval.is_known());
  EXPECT_EQ(comparison.wall().finding, Finding::unknown);
  EXPECT_TRUE(comparison.causes.empty());
  EXPECT_THAT(caveats(comparison)[0], HasSubstr("the spread of the other side is taken for both"));
}

TEST(Compare, RunsThatCannotReachAPValueAreToldHowManyCan) {
  EXPECT_TRUE(std::isnan(published_comparison().wall().rank_p));
  EXPECT_THAT(caveats(published_comparison())[1], testing::AllOf(HasSubstr("2 + 2 runs can reach is 0.333"),
                                                                 HasSubstr("4 + 4 runs reach 0.029")));
  std::vector<ComparedRun> base, newer;
  for (int i = 0; i < 4; ++i) {
    base.push_back(two_stages("a" + std::to_string(i), 100 + i, 900));
    newer.push_back(two_stages("b" + std::to_string(i), 120 + i, 900));
  }
  const Comparison comparison = compare_runs(base, newer, {});
  EXPECT_DOUBLE_EQ(comparison.wall().rank_p, 2.0 / 70);
  EXPECT_DOUBLE_EQ(comparison.wall().hodges_lehmann, 20);
}

/// Two runs of 20 steps, whose blocks are 5.
class OneASide : public testing::Test {
 protected:
  static ComparedRun with_blocks(const std::string& name, const BlockFigures& blocks) {
    ComparedRun run = two_stages(name, 500, 500);
    run.report.wall_blocks = blocks;
    run.report.stages[0].blocks = blocks;
    return run;
  }
  BlockFigures base_blocks{{10, 12, 11, 9, 10}, {1, 1, 1, 1, 1}};
  BlockFigures new_blocks{{11, 14, 11.5, 10, 12}, {2, 2, 2, 2, 3}};
};

TEST_F(OneASide, ComparesBlockMediansAndSaysWhatWasNotMeasured) {
  const Comparison comparison =
      compare_runs({with_blocks("a", base_blocks)}, {with_blocks("b", new_blocks)}, {});
  EXPECT_EQ(comparison.wall().estimate, Estimate::block_medians);
  EXPECT_NEAR(comparison.wall().difference, 1.3, 1e-12);
  EXPECT_NEAR(comparison.wall().interval.low, 0.467066468, 1e-8);
  EXPECT_TRUE(comparison.paired_blocks);
  EXPECT_TRUE(comparison.causes.empty());
  EXPECT_EQ(comparison.wall().finding, Finding::unknown);
  EXPECT_THAT(conclusions(comparison)[1], HasSubstr("Run-to-run variation was not measured"));
  EXPECT_THAT(caveats(comparison)[0],
              testing::AllOf(HasSubstr("5 and 5 blocks"), HasSubstr("noise within the runs alone")));
}

TEST_F(OneASide, RunsOfOtherStepsAreNotPaired) {
  ComparedRun later = with_blocks("b", new_blocks);
  for (StepWork& work : later.report.work) work.step += 5;
  const Comparison comparison = compare_runs({with_blocks("a", base_blocks)}, {later}, {});
  EXPECT_FALSE(comparison.paired_blocks);
  EXPECT_FALSE(comparison.match.pass);
  EXPECT_LT(comparison.wall().interval.low, 0);  // without pairs the blocks' own differences stay in
}

TEST_F(OneASide, AStageThatIsNotInEveryStepIsComparedByMeans) {
  ComparedRun sometimes = with_blocks("b", new_blocks);
  sometimes.report.stages[0].present = 7;
  const Comparison comparison = compare_runs({with_blocks("a", base_blocks)}, {sometimes}, {});
  EXPECT_EQ(row_of(comparison, "x").estimate, Estimate::block_means);
  EXPECT_NEAR(row_of(comparison, "x").difference, 1.2, 1e-12);
}

TEST_F(OneASide, TooFewStepsHaveNoInterval) {
  ComparedRun a = two_stages("a", 100, 900), b = two_stages("b", 120, 900);
  a.report.steps = b.report.steps = 19;
  const Comparison comparison = compare_runs({a}, {b}, {});
  EXPECT_DOUBLE_EQ(comparison.wall().difference, 20);
  EXPECT_FALSE(comparison.wall().interval.is_known());
  EXPECT_THAT(caveats(comparison)[0], HasSubstr("needs 20 steps"));
}

// The change is in the outer stage as a whole; which of its parts has it is lost in what they trade.
TEST(Compare, TheOuterStageIsNamedWhenNoneInsideCanBe) {
  const auto run = [](const std::string& name, double forward, double attention) {
    return run_of(name, forward + 500,
                  {{"forward", "", forward},
                   {"attention", "forward", attention},
                   {"mlp", "forward", forward - attention},
                   {"backward", "", 500}});
  };
  const Comparison comparison = compare_runs({run("a", 200.1, 80), run("b", 200.5, 120)},
                                             {run("c", 300.1, 180), run("d", 300.5, 140)}, {});
  EXPECT_THAT(causes_of(comparison), ElementsAre("forward"));
}

TEST(Compare, SlowerInEveryPairingIsSaidThoughTheIntervalHolds0) {
  const auto sentences =
      conclusions(compare_runs({two_stages("a", 500, 500), two_stages("b", 500.1, 500)},
                               {two_stages("c", 600, 500), two_stages("d", 660, 500)}, {}));
  EXPECT_THAT(sentences[0], HasSubstr("New is slower in every pairing of runs, by 0.130 s a step"));
  EXPECT_THAT(sentences[0], HasSubstr("two runs on a side are too few for an interval that leaves out 0"));
  EXPECT_THAT(sentences[1], HasSubstr("x carries it"));
}

// 15 against spreads of 7 and 5: two runs a side say little of the spread, three say enough.
TEST(Compare, WithMoreRunsLessIsNeeded) {
  const auto x = [](const std::string& name, double ms) { return two_stages(name, ms, 900); };
  const Comparison two = compare_runs({x("a", 100), x("b", 110)}, {x("c", 115), x("d", 125)}, {});
  EXPECT_EQ(two.wall().finding, Finding::inside);
  const Comparison three =
      compare_runs({x("a", 100), x("b", 105), x("c", 110)}, {x("d", 115), x("e", 120), x("f", 125)}, {});
  EXPECT_EQ(three.wall().finding, Finding::beyond);
  const Comparison apart_by_little =
      compare_runs({x("a", 100), x("b", 105), x("c", 110)}, {x("d", 111), x("e", 112), x("f", 125)}, {});
  EXPECT_EQ(apart_by_little.wall().finding, Finding::inside);  // the interval holds 0
}

TEST(Compare, EqualWallsAreSaidToBeEqual) {
  const auto same = conclusions(compare_runs({two_stages("a", 100, 900)}, {two_stages("b", 100, 900)}, {}));
  EXPECT_THAT(same[0], HasSubstr("The walls are equal: 1.000 s a step"));
  const auto from_nothing = conclusions(compare_runs({two_stages("a", 0, 0)}, {two_stages("b", 5, 0)}, {}));
  EXPECT_THAT(from_nothing[0], testing::Not(HasSubstr("inf")));
}

TEST(Compare, StagesAreToldOnTheClockThatEveryRunHas) {
  const auto on_host = [](const std::string& name, double ms) {
    ComparedRun run = two_stages(name, ms, 900);
    for (StageRow& row : run.report.stages) row.clock = Clock::host;
    run.report.own_clock = Clock::host;
    run.report.max_own_ms = 1000;
    return run;
  };
  ComparedRun c = on_host("c", 300), d = on_host("d", 301);
  for (ComparedRun* run : {&c, &d}) {
    run->report.stages.push_back({.name = "extra", .parent = "", .mean_ms = 1, .present = 20});
    run->report.own_clock = Clock::stream;
    run->report.max_own_ms = 1;
  }
  const Comparison comparison = compare_runs({on_host("a", 100), on_host("b", 101)}, {c, d}, {});
  EXPECT_EQ(comparison.clock, Clock::host);
  EXPECT_THAT(causes_of(comparison), ElementsAre("x"));
  for (const ComparedRow& row : comparison.rows) {
    if (row.figure == Figure::max_own) {
      EXPECT_FALSE(std::isfinite(row.difference));
    }
  }
  EXPECT_THAT(caveats(comparison), testing::Contains(HasSubstr("Own times and S have no difference")));
}

TEST(Compare, AStageThatOnlyNewHasIsSaidWhereNothingElseExplainsIt) {
  const auto newer = [](const std::string& name, double ms) {
    ComparedRun run = run_of(name, 1300 + ms, {{"x", "", 100}, {"y", "", 900}, {"recompute", "", 300 + ms}});
    return run;
  };
  const auto sentences = conclusions(compare_runs({two_stages("a", 100, 900), two_stages("b", 100, 900.5)},
                                                  {newer("c", 0), newer("d", 1)}, {}));
  EXPECT_THAT(sentences[1],
              HasSubstr("No stage can be named for it. Not every run has recompute (stream, only "
                        "in new: 0.300"));
}

TEST(Compare, OneRunUnderTwoNamesIsNoticed) {
  const Comparison comparison = compare_runs({two_stages("a", 100, 900), two_stages("copy", 100, 900)},
                                             {two_stages("c", 110, 900), two_stages("d", 111, 900)}, {});
  EXPECT_THAT(caveats(comparison), testing::Contains(HasSubstr("a and copy have the same walls")));
}

TEST(Order, IsTakenFromStartTimesAndJudged) {
  const auto order = [](const std::vector<int>& base, const std::vector<int>& newer) {
    std::vector<RunTime> runs;
    for (const int hour : base) runs.push_back({.newer = false, .started = hour * kHour});
    for (const int hour : newer) runs.push_back({.newer = true, .started = hour * kHour});
    return order_of(runs);
  };
  EXPECT_EQ(order({1, 4}, {2, 3}).pattern, "ABBA");
  EXPECT_EQ(order({1, 4}, {2, 3}).drift, Drift::cancels);
  EXPECT_EQ(order({2, 1}, {4, 3}).pattern, "AABB");
  EXPECT_EQ(order({1, 2}, {3, 4}).drift, Drift::confounded);
  EXPECT_EQ(order({3, 4}, {1, 2}).drift, Drift::confounded);
  EXPECT_EQ(order({1, 3}, {2, 4}).drift, Drift::partly);
  EXPECT_DOUBLE_EQ(order({1, 3}, {2, 4}).apart_ms, kHour);
  // The last one long after the others: its side is later by days, whatever the places say.
  EXPECT_EQ(order({1, 200}, {2, 3}).pattern, "ABBA");
  EXPECT_EQ(order({1, 200}, {2, 3}).drift, Drift::partly);
  EXPECT_DOUBLE_EQ(order({1, 200}, {2, 3}).apart_ms, -98 * kHour);
}

TEST(Order, RunsThatStartedTogetherHaveNone) {
  ComparedRun a = two_stages("a", 100, 900), b = two_stages("b", 120, 900);
  a.report.settings = b.report.settings = R"({"started_unix_ms": 1764482750000})";
  const Comparison comparison = compare_runs({a}, {b}, {});
  EXPECT_EQ(comparison.order.known, OrderKnown::started);
  EXPECT_EQ(comparison.order.pattern, "");
  EXPECT_EQ(comparison.order.drift, Drift::unknown);
  EXPECT_THAT(caveats(comparison),
              testing::Contains(HasSubstr("Runs of both sides started at the same time")));
}

TEST(Order, ReceiptCountsOnlyWhenTheJobCanHaveRunThen) {
  std::vector<RunTime> runs;
  for (int i = 0; i < 4; ++i)
    runs.push_back({.newer = i == 1 || i == 2,
                    .first_received = i * kHour,
                    .last_received = i * kHour + 50'000,
                    .walls_ms = 60'000});
  EXPECT_EQ(order_of(runs).pattern, "ABBA");
  EXPECT_EQ(order_of(runs).known, OrderKnown::received);
  runs[2].last_received = runs[2].first_received + 100;  // a file that was imported
  EXPECT_EQ(order_of(runs).known, OrderKnown::unknown);
  EXPECT_EQ(order_of(runs).pattern, "");
}

TEST(Order, StartedUnixMsOfTheSettingsIsReadAndNoDifferenceOfTheRuns) {
  std::vector<ComparedRun> base = {two_stages("a", 100, 900), two_stages("b", 101, 900)};
  std::vector<ComparedRun> newer = {two_stages("c", 200, 900), two_stages("d", 201, 900)};
  base[0].report.settings = R"({"started_unix_ms":1000})";
  base[1].report.settings = R"({"started_unix_ms":2000})";
  newer[0].report.settings = R"({"started_unix_ms":3000})";
  newer[1].report.settings = R"({"started_unix_ms":4000})";
  const Comparison comparison = compare_runs(base, newer, {});
  EXPECT_TRUE(comparison.match.pass);
  EXPECT_EQ(comparison.order.pattern, "AABB");
  EXPECT_THAT(caveats(comparison)[2], HasSubstr("passes for an effect"));
}

TEST(Compare, RatiosAndCountsStandBeside) {
  ComparedRun a = two_stages("a", 100, 900), b = two_stages("b", 120, 900);
  a.report.count_sums = {{"tokens", 10}};
  b.report.count_sums = {{"tokens", 12}, {"fallback", 3}};
  a.report.ratios = {{"padding %", 7}};
  b.report.ratios = {{"padding %", kAbsent}};
  const Comparison comparison = compare_runs({a}, {b}, {.ratios = {{.name = "padding %"}}});
  ASSERT_EQ(comparison.counts.size(), 3U);
  EXPECT_EQ(comparison.counts[0].base, 7);
  EXPECT_TRUE(std::isnan(comparison.counts[0].newer));
  EXPECT_EQ(comparison.counts[1].name, "fallback");
  EXPECT_TRUE(std::isnan(comparison.counts[1].base));
  EXPECT_EQ(comparison.counts[2].newer, 12);
}

}  // namespace
}  // namespace laggard::core
