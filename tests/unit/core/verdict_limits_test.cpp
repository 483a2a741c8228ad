// What a verdict must not be misled by: stages of which nothing is known, values that are missing, steps that
// cannot be, ranks that take turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "daemon/core/breakdown.h"
#include "daemon/core/verdict_window.h"
#include "tests/support/records.h"

namespace laggard::core {
namespace {

using test::step_of;
using test::TestRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr VerdictWindow::Size kLive{.judged = 100, .recent = 30, .kept = 1000};
constexpr VerdictWindow::Size kWhole{.judged = 0, .recent = 30, .kept = 0};

class VerdictLimits : public ::testing::Test {
 protected:
  using Stages = std::vector<std::pair<std::string, double>>;
  void put(Step number, const std::vector<Stages>& ranks, double wall) {
    std::vector<TestRecord> records;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (const auto& [name, time] : ranks[i]) stages.intern(name);
      records.push_back({.rank = static_cast<Rank>(i), .step = number, .wall_ms = wall, .stream = ranks[i]});
    }
    window.put(own_of(break_down(step_of(records, layouts), layouts, stages)));
  }
  /// Steps in which ranks compute so long, in `forward`, with 1 ms of noise, and wait in `wait`.
  void run(Step last, Rank ranks, const std::function<double(Rank, Step)>& own,
           const std::string& wait = "all_reduce") {
    for (Step number = 1; number <= last; ++number) {
      std::vector<double> compute;
      for (Rank rank = 0; rank < ranks; ++rank) compute.push_back(own(rank, number) + normal_(random_));
      const double wall = *std::ranges::max_element(compute) + 10;
      std::vector<Stages> records;
      for (const double ms : compute) records.push_back({{"forward", ms}, {wait, wall - ms}});
      put(number, records, wall);
    }
  }
  Verdict judge() const { return window.judge(placement); }
  std::string sentence() const { return sentence_of(judge(), stages, placement); }

  LayoutTable layouts;
  StageTable stages;
  Placement placement;
  VerdictWindow window{kLive};

 private:
  std::mt19937 random_{11};
  std::normal_distribution<double> normal_{0, 1};
};

// Rank 3 is slow, but as far as anybody knows backward is work like forward, and takes what forward leaves.
TEST_F(VerdictLimits, WithoutAStageThatWaitsEvenIsNotBalanced) {
  run(
      50, 8, [](Rank rank, Step) { return rank == 3 ? 150.0 : 100.0; }, "backward");
  EXPECT_EQ(judge().kind, VerdictKind::unknown);
  EXPECT_THAT(sentence(),
              HasSubstr("no verdict: own times are even, but no stage is known to contain waiting"));
}

// What the stages of a rank cover less than others.
class OutsideOfStages : public VerdictLimits {
 protected:
  /// Steps of 30 ms, and what rank 2 sleeps: outside of all its stages, while the others wait in theirs.
  void run(Step from, Step to, double asleep_ms, Rank ranks = 4) {
    for (Step number = from; number <= to; ++number) {
      std::vector<Stages> records(ranks, Stages{{"forward", 20}, {"all_reduce", 10 + asleep_ms}});
      records[2 % ranks].back().second = 10;
      put(number, records, 30 + asleep_ms);
    }
  }
  /// The same step again and again.
  void repeat(const std::vector<TestRecord>& ranks) {
    for (Step number = 1; number <= 30; ++number) {
      std::vector<TestRecord> records = ranks;
      for (std::size_t i = 0; i < records.size(); ++i) {
        records[i].rank = static_cast<Rank>(i);
        records[i].step = number;
      }
      window.put(own_of(break_down(step_of(records, layouts), layouts, stages)));
    }
  }
  std::vector<Rank> told() const { return judge().outside.ranks; }
};

TEST_F(OutsideOfStages, WhoStandsOutIsTold) {
  run(1, 30, 0);
  EXPECT_THAT(told(), IsEmpty());
  run(31, 53, 10);
  EXPECT_THAT(told(), IsEmpty()) << "23 of the newest 30 steps";
  run(54, 60, 10);
  EXPECT_THAT(told(), ElementsAre(2));
  EXPECT_EQ(judge().kind, VerdictKind::inside_sync) << "nobody is accused of it";
  EXPECT_THAT(sentence(),
              HasSubstr("; the stages of rank 2 cover 10 ms less of each step than the usual rank's: "
                        "what it does or waits for in that time is not known"));
}

TEST_F(OutsideOfStages, ThreePercentOfTheStepAreWorthTelling) {
  run(1, 30, 0.8);
  EXPECT_THAT(told(), IsEmpty());
  run(31, 60, 1.2);
  EXPECT_THAT(told(), ElementsAre(2));
}

TEST_F(OutsideOfStages, APauseIsNotInEachStep) {
  run(1, 29, 2);
  run(30, 30, 2000);
  EXPECT_DOUBLE_EQ(judge().outside.most_ms, 2);
}

TEST_F(OutsideOfStages, OfTwoRanksNoneIsTheUsualOne) {
  run(1, 30, 10, 2);
  EXPECT_THAT(told(), IsEmpty());
}

// A loader that is no stage, before the step begins: the others wait for rank 2 inside of theirs.
TEST_F(OutsideOfStages, TimeBetweenTheStepsOfARankThatWaits) {
  for (const char* stage : {"forward", "all_reduce"}) stages.intern(stage);
  const TestRecord usual{.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", 20}}},
      late{.wall_ms = 25, .stream = {{"forward", 20}, {"all_reduce", 5}}};
  repeat({usual, usual, late, usual});
  EXPECT_THAT(told(), ElementsAre(2));
  EXPECT_DOUBLE_EQ(judge().outside.most_ms, 15);
}

// Who waits for nobody may be done sooner.
TEST_F(OutsideOfStages, ShorterStepsOfARankThatDoesNotWait) {
  stages.intern("forward");
  const TestRecord usual{.wall_ms = 40, .stream = {{"forward", 40}}},
      less{.wall_ms = 25, .stream = {{"forward", 25}}};
  repeat({usual, usual, less, usual});
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(OutsideOfStages, AThirdOfTheRanksIsTheMost) {
  const TestRecord usual{.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", 20}}},
      less{.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", 12}}},
      least{.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", 4}}};
  for (const char* stage : {"forward", "all_reduce"}) stages.intern(stage);
  repeat({usual, usual, less, least});
  EXPECT_THAT(told(), IsEmpty());
  repeat({usual, usual, less, least, usual, usual});
  EXPECT_THAT(told(), ElementsAre(2, 3));
  EXPECT_THAT(sentence(), HasSubstr("the stages of ranks 2, 3 cover 8.0 ms to 16 ms less of each step"));
}

// The others wait outside of all stages for rank 1.
TEST_F(OutsideOfStages, WhoIsWaitedForLeavesLittle) {
  stages.intern("forward");
  const TestRecord waits{.wall_ms = 50, .stream = {{"forward", 20}}},
      waited_for{.wall_ms = 50, .stream = {{"forward", 50}}};
  repeat({waits, waited_for, waits, waits});
  EXPECT_THAT(judge().held->ranks, ElementsAre(1));
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(OutsideOfStages, OfTimesThatAreNotKnownNothingIsTold) {
  const TestRecord usual{.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", 20}}};
  for (const char* stage : {"forward", "all_reduce", "preprocess"}) stages.intern(stage);
  const std::vector<std::pair<std::string, TestRecord>> unknown{
      {"cannot be", {.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", -1}}}},
      {"no wall", {.wall_ms = kNull, .stream = {{"forward", 20}, {"all_reduce", 10}}}},
      {"the device's time is lost",
       {.wall_ms = 40, .stream = {{"all_reduce", 5}}, .host = {{"forward", 20}}}},
      {"of the host alone",
       {.wall_ms = 40, .stream = {{"forward", 20}, {"all_reduce", 5}}, .host = {{"preprocess", 15}}}}};
  for (const auto& [why, record] : unknown) {
    repeat({usual, usual, record, usual});
    EXPECT_THAT(told(), IsEmpty()) << why;
  }
  // A part of what is timed on the device.
  ASSERT_TRUE(stages.set_parent(*stages.find("preprocess"), *stages.find("forward"), Knowledge::records));
  repeat({usual, usual, unknown.back().second, usual});
  EXPECT_THAT(told(), ElementsAre(2));
}

// Ranks 1 and 2 sleep outside of their stages; the others wait for them in backward, and nobody said that one
// can.
TEST_F(OutsideOfStages, WhoWaitsInAStageThatNobodyCalledSyncLooksSlow) {
  for (const char* stage : {"forward", "backward", "barrier"}) stages.intern(stage);
  const TestRecord late{.wall_ms = 41, .stream = {{"forward", 15}, {"backward", 10}, {"barrier", 1}}},
      waits{.wall_ms = 41, .stream = {{"forward", 15}, {"backward", 25}, {"barrier", 1}}};
  const std::string beware =
      "; beware: in none of their stages do the others wait for them, and nobody said which kind backward "
      "is: if it "
      "contains waiting, it is the others that are late";
  repeat({waits, late, late, waits});
  EXPECT_THAT(judge().held->ranks, ElementsAre(0, 3));
  EXPECT_DOUBLE_EQ(judge().held->more_covered_ms, 15);
  EXPECT_THAT(sentence(), HasSubstr(beware));
  stages.set_kind(*stages.find("backward"), StageKind::work, Knowledge::profile);
  EXPECT_THAT(sentence(), Not(HasSubstr("beware"))) << "somebody said that it does not";
  stages.set_kind(*stages.find("backward"), StageKind::sync, Knowledge::profile);
  repeat({waits, late, late, waits});
  EXPECT_FALSE(judge().held.has_value());
}

TEST_F(OutsideOfStages, WhoIsWaitedForInAStageIsNamedWithoutADoubt) {
  for (const char* stage : {"forward", "all_reduce"}) stages.intern(stage);
  const TestRecord slow{.wall_ms = 41, .stream = {{"forward", 30}, {"all_reduce", 10}}},
      waits{.wall_ms = 41, .stream = {{"forward", 15}, {"all_reduce", 25}}};
  repeat({waits, slow, waits, waits});
  EXPECT_THAT(judge().held->ranks, ElementsAre(1));
  EXPECT_DOUBLE_EQ(judge().held->more_covered_ms, 0);
  EXPECT_THAT(sentence(), Not(HasSubstr("beware")));
}

TEST_F(OutsideOfStages, WhereStagesOverlapNothingIsTold) {
  const TestRecord overlaps{.wall_ms = 100,
                            .stream = {{"forward", 60}, {"attention", 50}, {"all_reduce", 10}}},
      without{.wall_ms = 100, .stream = {{"forward", 60}, {"all_reduce", 10}}};
  for (const char* stage : {"forward", "attention", "all_reduce"}) stages.intern(stage);
  repeat({overlaps, overlaps, overlaps, without});
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(VerdictLimits, WithoutAStageThatWaitsTheSentenceSaysSo) {
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks(8, Stages{{"forward", 100}});
    ranks[3].front().second = 150;
    put(number, ranks, 160);
  }
  EXPECT_EQ(judge().kind, VerdictKind::one_rank);
  EXPECT_THAT(sentence(), HasSubstr("rank 3 holds every step back: forward +50 ms"));
  EXPECT_THAT(sentence(), HasSubstr("no stage is known to contain waiting"));
  EXPECT_FALSE(judge().has_sync());
}

TEST_F(VerdictLimits, WhatASyncStageTookIsNotNeeded) {
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks(8, Stages{{"forward", 100}, {"all_reduce", 60}});
    ranks[3] = {{"forward", 150}, {"all_reduce", kNull}};
    put(number, ranks, 160);
  }
  ASSERT_TRUE(judge().held.has_value()) << sentence();
  EXPECT_THAT(judge().held->ranks, ElementsAre(3));
  EXPECT_THAT(judge().unjudged, IsEmpty());
}

TEST_F(VerdictLimits, ARankThatCannotBeJudgedIsSaid) {
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks(8, Stages{{"forward", 100}, {"optimizer", 5}, {"all_reduce", 30}});
    ranks[3] = {{"forward", 120}, {"optimizer", kNull}, {"all_reduce", 10}};
    put(number, ranks, 135);
  }
  EXPECT_EQ(judge().kind, VerdictKind::balanced);
  EXPECT_THAT(judge().unjudged, ElementsAre(3));
  EXPECT_THAT(sentence(),
              HasSubstr("not judged: rank 3, of whose stages a time is missing or cannot be used"));
}

// A sync stage inside of another has to be taken off it.
TEST_F(VerdictLimits, ASyncStageInsideAnotherIsNeeded) {
  const StageId inner = stages.intern("all_reduce"), outer = stages.intern("backward");
  ASSERT_TRUE(stages.set_parent(inner, outer, Knowledge::records));
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks(8, Stages{{"backward", 100}, {"all_reduce", 60}});
    ranks[3] = {{"backward", 150}, {"all_reduce", kNull}};
    put(number, ranks, 160);
  }
  EXPECT_THAT(judge().unjudged, ElementsAre(3));
}

TEST_F(VerdictLimits, AnEarlierEpisodeHidesNobodyInALongWindow) {
  window = VerdictWindow(kWhole);
  run(600, 8, [](Rank rank, Step step) {
    return rank == 3 && ((step > 100 && step <= 200) || step > 400) ? 150.0 : 100.0;
  });
  ASSERT_TRUE(judge().held.has_value()) << sentence();
  EXPECT_THAT(judge().held->ranks, ElementsAre(3));
  EXPECT_NEAR(static_cast<double>(judge().held->since.value_or(0)), 401, 2);
}

TEST_F(VerdictLimits, AnEpisodeLongAgoHasBothEnds) {
  window = VerdictWindow(kWhole);
  run(1200, 8, [](Rank rank, Step step) { return rank == 3 && step > 300 && step <= 500 ? 150.0 : 100.0; });
  ASSERT_TRUE(judge().held.has_value()) << sentence();
  EXPECT_NEAR(static_cast<double>(judge().held->since.value_or(0)), 301, 2);
  EXPECT_NEAR(static_cast<double>(judge().held->until.value_or(0)), 501, 2);
  EXPECT_NEAR(judge().held->excess_ms, 50, 2) << sentence();
}

// One is slow in every step, the other, more, in two steps of five: both make the others wait.
TEST_F(VerdictLimits, RanksThatTakeTurnsAsTheSlowestAreNamed) {
  for (const VerdictWindow::Size size : {kLive, kWhole}) {
    window = VerdictWindow(size);
    run(110, 16, [](Rank rank, Step step) {
      return rank == 3 ? 125.0 : rank == 6 && step % 5 < 2 ? 180.0 : 100.0;
    });
    ASSERT_TRUE(judge().held.has_value()) << sentence();
    EXPECT_THAT(judge().held->ranks, ::testing::AnyOf(ElementsAre(3), ElementsAre(3, 6)));
  }
}

TEST_F(VerdictLimits, AStageThatOnlyTheSlowHaveIsTheReason) {
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks(8, Stages{{"compute", 300}, {"all_reduce", 110}});
    ranks[3] = ranks[7] = {{"compute", 300}, {"loss", 100}, {"all_reduce", 10}};
    put(number, ranks, 410);
  }
  ASSERT_TRUE(judge().held.has_value());
  EXPECT_EQ(judge().held->stage, stages.find("loss"));
  EXPECT_DOUBLE_EQ(judge().held->stage_excess_ms, 100);
  ASSERT_FALSE(judge().what_if.empty());
  const auto& what_if = judge().what_if;
  const auto loss = std::ranges::find_if(what_if, [&](const WhatIf& what) {
    return what.of == WhatIf::Of::stage && what.stage == stages.find("loss");
  });
  ASSERT_NE(loss, what_if.end());
  EXPECT_NEAR(loss->wall_ms, 310, 1e-3);
}

// As the first and last stages of a pipeline have them: half of the ranks, or fewer, and no reason for
// anything.
TEST_F(VerdictLimits, AStageThatSomeHaveIsNoReasonWhereAnotherExplainsIt) {
  for (const Rank with_embedding : {2U, 4U}) {
    window = VerdictWindow(kLive);
    for (Step number = 1; number <= 30; ++number) {
      std::vector<Stages> ranks;
      for (Rank rank = 0; rank < 8; ++rank) {
        const double backward = rank == 1 ? 240 : 200, place = rank < with_embedding ? 20 : 0;
        Stages times{{"forward", 120 - place}, {"backward", backward}, {"all_reduce", 450 - 120 - backward}};
        if (place > 0) times.push_back({"embedding", place});
        ranks.push_back(times);
      }
      put(number, ranks, 450);
    }
    ASSERT_TRUE(judge().held.has_value());
    EXPECT_THAT(judge().held->ranks, ElementsAre(1));
    EXPECT_EQ(judge().held->stage, stages.find("backward")) << sentence();
    EXPECT_DOUBLE_EQ(judge().held->stage_excess_ms, 40);
    if (with_embedding < 4) continue;  // the usual rank has none
    for (const WhatIf& what : judge().what_if)
      EXPECT_TRUE(what.of != WhatIf::Of::stage || what.stage == stages.find("backward")) << what.stage;
  }
}

TEST_F(VerdictLimits, RanksThatAreSlowInDifferentStagesAreToldSo) {
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks(16, Stages{{"forward", 300}, {"loss", 300}, {"all_reduce", 110}});
    ranks[3] = {{"forward", 400}, {"loss", 300}, {"all_reduce", 10}};
    ranks[9] = {{"forward", 300}, {"loss", 400}, {"all_reduce", 10}};
    put(number, ranks, 710);
  }
  EXPECT_THAT(sentence(),
              HasSubstr("ranks 3, 9 hold every step back: own time +100 ms of 710 ms (14 %), above all rank "
                        "3 in forward, rank 9 in loss"));
  EXPECT_EQ(judge().held->stage, kNoStage);
  EXPECT_NEAR(judge().what_if.front().wall_ms, 610, 1e-3) << "without both";
}

TEST_F(VerdictLimits, OneStepThatCannotBeIsLeftOut) {
  run(50, 8, [](Rank rank, Step) { return rank == 3 ? 130.0 : 100.0; });
  std::vector<Stages> ranks(8, Stages{{"forward", 100}, {"all_reduce", 10}});
  ranks[0].front().second = 300'000;
  put(51, ranks, 110);
  ASSERT_TRUE(judge().held.has_value()) << sentence();
  EXPECT_THAT(judge().held->ranks, ElementsAre(3));
  EXPECT_EQ(judge().odd_steps, 1U);
  EXPECT_EQ(judge().steps, 50U);
  EXPECT_FALSE(judge().counted_twice);
  EXPECT_THAT(sentence(), HasSubstr("left out: 1 step with own times of more than twice the step"));
}

TEST_F(VerdictLimits, WhoIsGoneIsSaidToBeGone) {
  run(105, 8, [](Rank rank, Step) { return rank == 7 ? 150.0 : 100.0; });
  for (Step number = 106; number <= 110; ++number)
    put(number, std::vector<Stages>(7, Stages{{"forward", 100}, {"all_reduce", 10}}), 110);
  EXPECT_FALSE(judge().held.has_value());
  EXPECT_THAT(sentence(), HasSubstr("rank 7, the slowest in 95 % of the steps, is gone since step 105"));
}

TEST_F(VerdictLimits, NowAndThenIsSaidWithHowOftenAndWhere) {
  for (Step number = 1; number <= 100; ++number) {
    std::vector<Stages> ranks(8, Stages{{"forward", 100}, {"all_reduce", 10}});
    if (number % 10 == 0) ranks[0].push_back({"save", 800});
    put(number, ranks, number % 10 == 0 ? 910 : 110);
  }
  EXPECT_THAT(sentence(),
              HasSubstr("rank 0 does in 10 of 100, above all in save, which costs 80 ms a step; uneven "
                        "ranks cost 70 ms"));
}

TEST_F(VerdictLimits, WallsThatAreNoTimesAreNoVerdict) {
  for (const double wall : {0.0, -0.0, 1e308}) {
    window = VerdictWindow(kLive);
    for (Step number = 1; number <= 30; ++number)
      put(number, std::vector<Stages>(4, Stages{{"forward", 0}, {"all_reduce", 0}}), wall);
    EXPECT_EQ(judge().kind, VerdictKind::unknown) << wall;
    EXPECT_THAT(sentence(), Not(HasSubstr("contain others")));
  }
}

// Nested stages of which nobody said so add up to three times the step; who is slow is slow all the same.
TEST_F(VerdictLimits, StagesThatAreCountedSeveralTimesHideNobody) {
  for (Step number = 1; number <= 30; ++number) {
    std::vector<Stages> ranks;
    for (Rank rank = 0; rank < 8; ++rank) {
      const double forward = rank == 3 ? 140 : 100;
      ranks.push_back(
          {{"micro_step", forward}, {"model", forward}, {"forward", forward}, {"all_reduce", 150 - forward}});
    }
    put(number, ranks, 150);
  }
  ASSERT_TRUE(judge().held.has_value()) << sentence();
  EXPECT_THAT(judge().held->ranks, ElementsAre(3));
  EXPECT_TRUE(judge().counted_twice);
}

// Scripts write every stage in every step.
TEST_F(VerdictLimits, ACheckpointThatTookNoTimeWasNone) {
  const auto step_with = [&](double checkpoint) {
    std::vector<TestRecord> records;
    for (const char* name : {"forward", "checkpoint"}) stages.intern(name);
    for (const Rank rank : {0U, 1U})
      records.push_back(
          {.rank = rank, .step = 1, .wall_ms = 100, .stream = {{"forward", 90}, {"checkpoint", checkpoint}}});
    return break_down(step_of(records, layouts), layouts, stages);
  };
  EXPECT_FALSE(step_with(0).aside);
  EXPECT_TRUE(step_with(5).aside);
}

}  // namespace
}  // namespace laggard::core
