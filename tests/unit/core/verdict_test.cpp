#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "daemon/core/breakdown.h"
#include "daemon/core/live_verdict.h"
#include "daemon/core/verdict_window.h"
#include "tests/support/labelled_jobs.h"
#include "tests/support/records.h"

namespace laggard::core {
namespace {

using test::step_of;
using test::TestRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Steps of ranks that compute and then wait for each other in an all_reduce.
class VerdictOf : public ::testing::Test {
 protected:
  StepOwn step(Step number, const std::vector<double>& compute, double all_reduce = 10) {
    const double largest = *std::ranges::max_element(compute);
    std::vector<TestRecord> records;
    for (std::size_t i = 0; i < compute.size(); ++i)
      records.push_back(
          {.rank = static_cast<Rank>(i),
           .step = number,
           .wall_ms = largest + all_reduce,
           .stream = {{"forward", compute[i]}, {"all_reduce", largest - compute[i] + all_reduce}}});
    for (const char* name : {"forward", "all_reduce"}) stages.intern(name);
    return own_of(break_down(step_of(records, layouts), layouts, stages));
  }
  Verdict judge() { return window.judge(placement); }
  std::string sentence(const Verdict& verdict) { return sentence_of(verdict, stages, placement); }

  LayoutTable layouts;
  StageTable stages;
  Placement placement;
  VerdictWindow window{{}};
};

// Own times 100, 100, 100, 160: mean 115, so an even job gains 45 of 170 ms.
TEST_F(VerdictOf, OneSlowRank) {
  placement = Placement({{.rank = 3, .host = "node12", .topology = {}}});
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 100, 100, 160}));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::one_rank);
  EXPECT_FALSE(verdict.tentative);
  EXPECT_EQ(verdict.steps, 20U);
  EXPECT_EQ(verdict.from, 1);
  EXPECT_EQ(verdict.to, 20);
  EXPECT_DOUBLE_EQ(verdict.wall_ms, 170);
  EXPECT_DOUBLE_EQ(verdict.max_own_ms, 160);
  EXPECT_DOUBLE_EQ(verdict.mean_own_ms, 115);
  EXPECT_DOUBLE_EQ(verdict.slowdown, 170.0 / 125);
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_THAT(verdict.held->ranks, ElementsAre(3));
  EXPECT_EQ(verdict.held->since, std::nullopt);
  EXPECT_DOUBLE_EQ(verdict.held->excess_ms, 60);
  EXPECT_DOUBLE_EQ(verdict.held->stage_excess_ms, 60);
  EXPECT_DOUBLE_EQ(verdict.held->share, 1);
  EXPECT_EQ(sentence(verdict),
            "rank 3 (node12) holds every step back: forward +60 ms of 170 ms (35 %); 100 % of 20 steps");
}

TEST_F(VerdictOf, OfTwoRanksTheOtherIsTheMeasure) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 130}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_THAT(verdict.held->ranks, ElementsAre(1));
  EXPECT_DOUBLE_EQ(verdict.held->excess_ms, 30);
  EXPECT_DOUBLE_EQ(verdict.held->stage_excess_ms, 30);
}

TEST_F(VerdictOf, FewStepsMakeItTentativeAndVeryFewNone) {
  EXPECT_EQ(judge().kind, VerdictKind::unknown);
  for (Step number = 1; number <= 2; ++number) window.put(step(number, {100, 100, 100, 160}));
  EXPECT_EQ(judge().kind, VerdictKind::unknown);
  EXPECT_EQ(sentence(judge()), "no verdict yet: 2 of 3 steps");
  window.put(step(3, {100, 100, 100, 160}));
  EXPECT_EQ(judge().kind, VerdictKind::one_rank);
  EXPECT_TRUE(judge().tentative);
  EXPECT_THAT(sentence(judge()), HasSubstr("(tentative: 3 steps)"));
}

TEST_F(VerdictOf, OneRankAloneIsNotJudged) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100}));
  EXPECT_EQ(judge().kind, VerdictKind::unknown);
  EXPECT_EQ(sentence(judge()), "no verdict yet: no step with own times of two ranks");
}

TEST_F(VerdictOf, AHostIsNamedAsOne) {
  placement = Placement({{0, "a", {{"dp", "0"}}},
                         {1, "a", {{"dp", "1"}}},
                         {2, "b", {{"dp", "0"}}},
                         {3, "b", {{"dp", "1"}}},
                         {4, "c", {{"dp", "0"}}},
                         {5, "c", {{"dp", "1"}}}});
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 101, 150, 152, 100, 99}));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::one_group);
  ASSERT_TRUE(verdict.held.has_value() && verdict.held->group.has_value());
  EXPECT_EQ(verdict.held->group->key, "host");
  EXPECT_EQ(verdict.held->group->value, "b");
  EXPECT_DOUBLE_EQ(verdict.held->excess_ms, 51);
  EXPECT_THAT(sentence(verdict), HasSubstr("host b (ranks 2, 3) holds every step back"));
}

TEST_F(VerdictOf, HalfOfTheRanksCanBeTheGroup) {
  placement = Placement(
      {{0, "", {{"pp", "0"}}}, {1, "", {{"pp", "1"}}}, {2, "", {{"pp", "0"}}}, {3, "", {{"pp", "1"}}}});
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 140, 101, 141}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value() && verdict.held->group.has_value());
  EXPECT_EQ(verdict.held->group->key, "pp");
  EXPECT_EQ(verdict.held->group->value, "1");
}

TEST_F(VerdictOf, SlowRanksWithNothingInCommonAreListed) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 140, 100, 100, 141, 100}));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::several_ranks);
  EXPECT_THAT(verdict.held->ranks, ElementsAre(1, 4));
  EXPECT_THAT(sentence(verdict), HasSubstr("ranks 1, 4 hold every step back"));
}

TEST_F(VerdictOf, NeighboursAreAGroupThoughNothingSaysSo) {
  for (Step number = 1; number <= 20; ++number)
    window.put(step(number, {100, 100, 140, 140, 141, 100, 100, 100}));
  EXPECT_THAT(sentence(judge()), HasSubstr("ranks 2-4 hold every step back"));
}

TEST_F(VerdictOf, AnotherRankInEveryStepIsNobodysFault) {
  for (Step number = 1; number <= 40; ++number) {
    std::vector<double> own(4, 100);
    own[static_cast<std::size_t>(number) % 4] = 150;
    window.put(step(number, own));
  }
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rotating);
  EXPECT_FALSE(verdict.held.has_value());
  EXPECT_EQ(verdict.culprits.size(), 4U);
  EXPECT_DOUBLE_EQ(verdict.culprits[0].share, 0.25);
  EXPECT_THAT(sentence(verdict),
              HasSubstr("the slowest changes from step to step and costs 38 ms of 160 ms"));
}

TEST_F(VerdictOf, EvenRanksAreBalanced) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 101, 100, 102}));
  EXPECT_EQ(judge().kind, VerdictKind::balanced);
  EXPECT_THAT(sentence(judge()), HasSubstr("balanced: uneven ranks cost 1.2 ms of 112 ms a step"));
}

// A14, second file: everybody waits inside the same stage.
TEST_F(VerdictOf, ALongSyncStageHidesWhoIsLate) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 100, 100, 100}, 90));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::inside_sync);
  EXPECT_FALSE(verdict.held.has_value());
  EXPECT_DOUBLE_EQ(verdict.least_sync_ms, 90);
  EXPECT_THAT(sentence(verdict), HasSubstr("nobody can be named"));
  EXPECT_THAT(sentence(verdict), HasSubstr("above all all_reduce"));
}

TEST_F(VerdictOf, SaysSinceWhen) {
  for (Step number = 1; number <= 60; ++number)
    window.put(step(number, {100, 100, number < 35 ? 100.0 : 120, 100}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_EQ(verdict.held->since, 35);
  EXPECT_EQ(verdict.held->steps, 26U);
  EXPECT_DOUBLE_EQ(verdict.held->excess_ms, 20);
  EXPECT_DOUBLE_EQ(verdict.held->wall_ms, 130);
  EXPECT_DOUBLE_EQ(verdict.held->share, 1);
}

TEST_F(VerdictOf, SaysUntilWhen) {
  for (Step number = 1; number <= 60; ++number)
    window.put(step(number, {100, 100, number < 35 ? 150.0 : 100, 100}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_EQ(verdict.held->until, 35);
  EXPECT_EQ(verdict.held->steps, 34U);
  EXPECT_THAT(sentence(verdict), HasSubstr("rank 2 held every step back until step 35"));
}

TEST_F(VerdictOf, SaysFromWhenUntilWhen) {
  for (Step number = 1; number <= 89; ++number)
    window.put(step(number, {100, 100, number > 50 && number <= 70 ? 120.0 : 100, 100}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_EQ(verdict.held->since, 51);
  EXPECT_EQ(verdict.held->until, 71);
  EXPECT_EQ(verdict.held->steps, 20U);
  EXPECT_THAT(sentence(verdict),
              HasSubstr("rank 2 held every step back from step 51 until step 71: forward +20 ms"));
}

TEST_F(VerdictOf, LessSlowThanBeforeIsStillSlow) {
  for (Step number = 1; number <= 100; ++number)
    window.put(step(number, {100, 100, number < 61 ? 400.0 : 150, 100}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_THAT(verdict.held->ranks, ElementsAre(2));
  EXPECT_EQ(verdict.held->until, std::nullopt);
}

// Ten slow steps of a hundred are little over the window; what counts is that they are the last ones.
TEST_F(VerdictOf, ARankThatHasJustTurnedSlowIsNamed) {
  for (Step number = 1; number <= 100; ++number)
    window.put(step(number, {100, 100, 100, number <= 88 ? 100.0 : 115}));
  const Verdict verdict = judge();
  EXPECT_LT(verdict.slowdown, kBalanced);
  EXPECT_EQ(verdict.kind, VerdictKind::one_rank);
  EXPECT_EQ(verdict.held->since, 89);
}

// Own 130, 100, 110: without rank 0 the largest is 110; "forward" as its median 110 everywhere makes all 110.
TEST_F(VerdictOf, WhatIf) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {130, 100, 110}));
  const Verdict verdict = judge();
  ASSERT_EQ(verdict.what_if.size(), 2U);
  EXPECT_EQ(verdict.what_if[0].of, WhatIf::Of::stage);
  EXPECT_DOUBLE_EQ(verdict.what_if[0].wall_ms, 120);
  EXPECT_EQ(verdict.what_if[1].of, WhatIf::Of::rank);
  EXPECT_EQ(verdict.what_if[1].rank, 0U);
  EXPECT_DOUBLE_EQ(verdict.what_if[1].wall_ms, 120);
}

// The forward of 100 ms is inside a total that nobody has said it is in: 200 ms of own time in a step of 110.
TEST_F(VerdictOf, SaysWhenStagesAreCountedTwice) {
  for (const char* name : {"forward", "total"}) stages.intern(name);
  for (Step number = 1; number <= 20; ++number) {
    std::vector<TestRecord> records;
    for (Rank rank = 0; rank < 2; ++rank)
      records.push_back(
          {.rank = rank, .step = number, .wall_ms = 110, .stream = {{"forward", 100}, {"total", 105}}});
    window.put(own_of(break_down(step_of(records, layouts), layouts, stages)));
  }
  EXPECT_TRUE(judge().counted_twice);
  EXPECT_THAT(sentence(judge()), HasSubstr("own times add up to 205 ms of a step of 110 ms"));
}

// Own 500 in steps of 300: whatever these stages are, they are no parts of the step.
TEST_F(VerdictOf, MoreLostThanTheStepTakesIsNoVerdict) {
  for (Step number = 1; number <= 20; ++number) {
    StepOwn impossible = step(number, {50, 50, 50, 500});
    impossible.wall_ms = 300;
    window.put(impossible);
  }
  EXPECT_EQ(judge().kind, VerdictKind::unknown);
  EXPECT_TRUE(judge().counted_twice);
  EXPECT_THAT(sentence(judge()), HasSubstr("no verdict: own times add up to 500 ms of a step of 300 ms"));
}

// Ranks 2 to 5 are not there in the first steps: nobody is there to be as fast as.
TEST_F(VerdictOf, AGroupAloneGainsNothing) {
  placement = Placement({{0, "a", {}}, {1, "a", {}}, {2, "b", {}}, {3, "b", {}}, {4, "b", {}}, {5, "b", {}}});
  for (Step number = 1; number <= 4; ++number) window.put(step(number, {140, 140}));
  for (Step number = 5; number <= 24; ++number) window.put(step(number, {140, 140, 100, 100, 100, 100}));
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value() && verdict.held->group.has_value());
  const auto group = std::ranges::find(verdict.what_if, WhatIf::Of::group, &WhatIf::of);
  ASSERT_NE(group, verdict.what_if.end());
  EXPECT_NEAR(group->wall_ms, 150 - 40.0 * 20 / 24, 1e-9);
}

TEST_F(VerdictOf, AStepTakenAgainReplacesWhatItWas) {
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 100, 160}));
  for (Step number = 1; number <= 20; ++number) window.put(step(number, {100, 100, 100}));
  EXPECT_EQ(judge().kind, VerdictKind::balanced);
  EXPECT_DOUBLE_EQ(judge().wall_ms, 110);
  window.drop(20);
  EXPECT_EQ(judge().steps, 19U);
}

// The sums that go along with the window are those of the steps in it, whatever came and went.
TEST_F(VerdictOf, TheWindowMovesOn) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 3);
  VerdictWindow moving({.judged = 30, .kept = 40});
  std::map<Step, StepOwn> all;
  for (Step number = 1; number <= 200; ++number) {
    std::vector<double> own(5);
    for (double& ms : own) ms = 100 + normal(random);
    own[1] += 8;
    const Step at = number % 7 == 0 ? number - 3 : number;  // some come again, late and changed
    all[at] = step(at, own);
    moving.put(all[at]);
  }
  EXPECT_EQ(moving.size(), 40U);
  VerdictWindow fresh({});
  for (auto it = std::prev(all.end(), 30); it != all.end(); ++it) fresh.put(it->second);
  const Verdict a = moving.judge(placement), b = fresh.judge(placement);
  EXPECT_EQ(a.kind, VerdictKind::one_rank);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.from, b.from);
  EXPECT_NEAR(a.slowdown, b.slowdown, 1e-9);
  ASSERT_EQ(a.culprits.size(), b.culprits.size());
  for (std::size_t i = 0; i < a.culprits.size(); ++i)
    EXPECT_NEAR(a.culprits[i].mean_excess_ms, b.culprits[i].mean_excess_ms, 1e-9);
}

TEST_F(VerdictOf, AHugeOutlierLeavesNothingBehind) {
  VerdictWindow moving({.judged = 30, .kept = 30});
  moving.put(step(1, {1e18, 100, 100}));
  for (Step number = 2; number <= 70; ++number) moving.put(step(number, {100, 100, 130}));
  const Verdict verdict = moving.judge(placement);
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_THAT(verdict.held->ranks, ElementsAre(2));
  EXPECT_NEAR(verdict.held->excess_ms, 30, 1e-6);
}

TEST_F(VerdictOf, MoreStepsThanMayBeKeptGo) {
  for (const std::size_t judged : {10U, 100U}) {
    VerdictWindow small({.judged = judged, .kept = 1000, .cells = 75});
    for (Step number = 1; number <= 40; ++number)
      small.put(step(number, {100, 100, number == 15 ? 5000.0 : 120}));
    EXPECT_EQ(small.size(), 25U);
    EXPECT_EQ(small.judge(placement).steps, std::min<std::size_t>(judged, 25));
    ASSERT_TRUE(small.judge(placement).held.has_value());
    EXPECT_NEAR(small.judge(placement).held->excess_ms, 20, 1e-9);
  }
  VerdictWindow wide({.judged = 10, .kept = 1000, .cells = 5});
  for (Step number = 1; number <= 30; ++number) wide.put(step(number, {100, 100, 100}));
  EXPECT_EQ(wide.size(), kTentativeSteps);
}

// Rank 5 stands for a minute once; rank 2 is the one that the others wait for in all the other steps.
TEST_F(VerdictOf, OneLongPauseHidesNobody) {
  for (const double pause : {400.0, 60000.0}) {
    for (Step number = 1; number <= 100; ++number)
      window.put(step(number, {100, 101, 110, 100, 101, number == 50 ? pause : 100, 100, 101}));
    const Verdict verdict = judge();
    ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << pause;
    EXPECT_THAT(verdict.held->ranks, ElementsAre(2));
    EXPECT_DOUBLE_EQ(verdict.held->share, 0.99);
    EXPECT_NEAR(verdict.held->excess_ms, 10, 0.5);
  }
}

TEST_F(VerdictOf, AOncePausingRankIsNotNamed) {
  for (Step number = 1; number <= 100; ++number)
    window.put(step(number, {100, 101, 100, 100, 101, number == 50 ? 60000.0 : 100, 100, 101}));
  EXPECT_FALSE(judge().held.has_value());
}

TEST_F(VerdictOf, ARankThatIsThereInFewStepsHidesNobody) {
  for (Step number = 1; number <= 100; ++number) {
    std::vector<double> own{100, 101, 120, 100, 101, 100, 100, 101};
    if (number % 33 == 0) own.push_back(300);
    window.put(step(number, own));
  }
  const Verdict verdict = judge();
  ASSERT_EQ(verdict.kind, VerdictKind::one_rank);
  EXPECT_THAT(verdict.held->ranks, ElementsAre(2));
  EXPECT_DOUBLE_EQ(verdict.held->share, 0.97);
}

TEST_F(VerdictOf, ARankThatIsThereInFewStepsDoesNotHoldEveryStepBack) {
  for (Step number = 1; number <= 100; ++number) {
    std::vector<double> own{100, 101, 100, 100, 101, 100, 100, 101};
    if (number % 33 == 0) own.push_back(300);
    window.put(step(number, own));
  }
  EXPECT_FALSE(judge().held.has_value());
}

/// 16 ranks in pipeline stages of 4 (or 2), on hosts that hold the slowest two stages together.
Placement pipeline(Rank stages) {
  std::vector<Placement::Place> places;
  for (Rank rank = 0; rank < 16; ++rank)
    places.push_back({rank,
                      rank * stages / 16 >= stages - 2 ? "late" : "early",
                      {{"pp", std::to_string(rank * stages / 16)}}});
  return Placement(places);
}

TEST_F(VerdictOf, OfGradedPipelineStagesTheSlowestIsNamed) {
  for (const std::vector<double>& of_stage :
       {std::vector<double>{100, 120, 140, 170}, std::vector<double>{100, 110, 120, 130, 140, 150, 160, 170},
        std::vector<double>{100, 100, 140, 170}}) {
    const auto stages_count = static_cast<Rank>(of_stage.size());
    placement = pipeline(stages_count);
    for (Step number = 1; number <= 40; ++number) {
      std::vector<double> own;
      for (Rank rank = 0; rank < 16; ++rank)
        own.push_back(of_stage[rank * stages_count / 16] + static_cast<double>((rank + number) % 3));
      window.put(step(number, own));
    }
    const Verdict verdict = judge();
    ASSERT_EQ(verdict.kind, VerdictKind::one_group) << stages_count << ": " << sentence(verdict);
    EXPECT_EQ(verdict.held->group->key, "pp") << sentence(verdict);
    EXPECT_EQ(verdict.held->group->value, std::to_string(stages_count - 1));
    EXPECT_DOUBLE_EQ(verdict.held->share, 1);
  }
}

// Rank 1 is slow as well, but nobody waits for it.
TEST_F(VerdictOf, WhoIsNeverTheSlowestIsNotNamed) {
  for (Step number = 1; number <= 40; ++number) window.put(step(number, {100, 118, 100, 100, 140, 100}));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::one_rank);
  EXPECT_THAT(verdict.held->ranks, ElementsAre(4));
}

// One that is the slowest in most steps by less than they vary is not named, and the words do not say that it
// changes from step to step.
TEST_F(VerdictOf, MostlyTheSlowestIsNotEvidence) {
  for (Step number = 1; number <= 10; ++number)
    window.put(step(number, number % 5 < 3 ? std::vector<double>{100, 150} : std::vector<double>{148, 100}));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rotating);
  EXPECT_THAT(sentence(verdict), HasSubstr("nobody is named: rank 1 is the slowest in 60 % of the steps"));
}

// What is seen goes first, and what is not seen is said.
TEST_F(VerdictOf, UnevenOwnTimesDoNotHideWhatSyncHides) {
  for (Step number = 1; number <= 40; ++number) {
    std::vector<double> own(4, 100);
    own[static_cast<std::size_t>(number) % 4] = 118;
    window.put(step(number, own, 300));
  }
  EXPECT_EQ(judge().kind, VerdictKind::rotating);
  EXPECT_THAT(sentence(judge()), HasSubstr("costs 14 ms of 418 ms a step (S 1.033); of each step at least "
                                           "300 ms (72 %) is inside sync stages"));
}

// Rank 0 is 200 ms longer inside the all_reduce than the others, which no own time accounts for.
TEST_F(VerdictOf, SkewInsideOfSyncIsNobodysThoughOwnTimesVary) {
  for (const char* name : {"forward", "all_reduce"}) stages.intern(name);
  for (Step number = 1; number <= 40; ++number) {
    std::vector<TestRecord> records;
    for (Rank rank = 0; rank < 4; ++rank)
      records.push_back({.rank = rank,
                         .step = number,
                         .wall_ms = 418,
                         .stream = {{"forward", rank == number % 4 ? 118.0 : 100},
                                    {"all_reduce", rank == 0 ? 300.0 : 100}}});
    window.put(own_of(break_down(step_of(records, layouts), layouts, stages)));
  }
  EXPECT_EQ(judge().kind, VerdictKind::inside_sync);
  EXPECT_THAT(sentence(judge()), HasSubstr("nobody can be named: uneven own times cost 14 ms of 418 ms"));
}

// Rank 1 exceeds the others by 10 in forward and by 9 to 11 in backward: neither explains the 20 alone.
TEST_F(VerdictOf, AnExcessInTwoStagesIsOwnTime) {
  for (const char* name : {"forward", "backward", "all_reduce"}) stages.intern(name);
  for (Step number = 1; number <= 40; ++number) {
    const double backward = number % 2 == 0 ? 59.9 : 60.2;
    std::vector<TestRecord> records;
    for (Rank rank = 0; rank < 3; ++rank)
      records.push_back({.rank = rank,
                         .step = number,
                         .wall_ms = 120,
                         .stream = {{"forward", rank == 1 ? 60 : 50.0},
                                    {"backward", rank == 1 ? backward : 50},
                                    {"all_reduce", rank == 1 ? 0 : 20.0}}});
    window.put(own_of(break_down(step_of(records, layouts), layouts, stages)));
  }
  const Verdict verdict = judge();
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_NEAR(verdict.held->excess_ms, 20.05, 1e-4);
  EXPECT_FALSE(verdict.held->is_one_stage());
  EXPECT_EQ(
      sentence(verdict),
      "rank 1 holds every step back: own time +20 ms of 120 ms (17 %), above all in backward; 100 % of 40 "
      "steps");
}

using test::Trouble;

// Noise that goes on from step to step looks like a slow rank where there are few steps.
TEST(Verdict, AFewNoisyStepsAccuseNobody) {
  int accused = 0;
  for (const std::uint32_t ranks : {2U, 4U, 8U})
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      test::LabelledJob job({.ranks = ranks, .noise = 0.05, .autocorrelation = 0.8, .seed = seed});
      VerdictWindow window({});
      for (Step number = 1; number <= 7; ++number)
        window.put(own_of(break_down(job.step(number), job.layouts(), job.stages())));
      accused += window.judge(job.placement()).held.has_value() ? 1 : 0;
    }
  EXPECT_LE(accused, 6);  // of 600
}

Verdict judge_job(const test::JobSpec& spec, test::LabelledJob& job) {
  LiveVerdict live;
  for (Rank rank = 0; rank < spec.ranks; ++rank) live.learn(rank, job.settings(rank), "");
  for (Step number = 1; number <= spec.steps; ++number)
    live.put({.breakdown = break_down(job.step(number), job.layouts(), job.stages())});
  return live.view(job.stages())->verdict;
}

// A sample of what tests/bench/verdict_rates.cpp measures.
TEST(Verdict, NobodyIsAccusedInJobsWithoutACulprit) {
  for (const Trouble trouble : {Trouble::none, Trouble::rotating, Trouble::inside_sync, Trouble::warm_up})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const test::JobSpec spec{.trouble = trouble, .ranks = 32, .noise = 0.05, .slow = 0.3, .seed = seed};
      test::LabelledJob job(spec);
      EXPECT_FALSE(judge_job(spec, job).held.has_value()) << name_of(trouble) << " seed " << seed;
    }
}

TEST(Verdict, TheGuiltyAreNamed) {
  for (const Trouble trouble : {Trouble::slow_rank, Trouble::slow_host, Trouble::slow_stage,
                                Trouble::turns_slow, Trouble::missing, Trouble::pauses, Trouble::graded})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const double slow =
          trouble == Trouble::graded ? 0.24 : 0.08;  // of four stages, the last over the first
      const test::JobSpec spec{.trouble = trouble, .ranks = 32, .steps = 80, .slow = slow, .seed = seed};
      test::LabelledJob job(spec);
      const Verdict verdict = judge_job(spec, job);
      ASSERT_TRUE(verdict.held.has_value()) << name_of(trouble) << " seed " << seed;
      EXPECT_EQ(verdict.held->ranks, job.guilty()) << name_of(trouble) << " seed " << seed;
      ASSERT_LT(verdict.held->stage, job.stages().size());
      EXPECT_EQ(job.stages()[verdict.held->stage].name, job.guilty_stage());
      if (job.turned().has_value()) {
        EXPECT_NEAR(static_cast<double>(verdict.held->since.value_or(0)), static_cast<double>(*job.turned()),
                    5);
      }
    }
}

}  // namespace
}  // namespace laggard::core
