// Jobs in which one trouble follows another: the verdict is on who is slow now.
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

/// A live window, in which ranks take what `own` says of rank and step, with 1 ms of noise.
class OverTime : public ::testing::Test {
 protected:
  Verdict after(Step last, const std::function<std::optional<double>(Rank, Step)>& own, Rank ranks = 8) {
    std::mt19937 random(11);
    std::normal_distribution<double> normal(0, 1);
    VerdictWindow live({.judged = 100, .recent = 30, .kept = 1000});
    for (const char* name : {"forward", "all_reduce"}) stages.intern(name);
    for (Step number = 1; number <= last; ++number) {
      std::vector<TestRecord> records;
      double largest = 0;
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto ms = own(rank, number);
        if (!ms.has_value()) continue;
        records.push_back({.rank = rank, .step = number, .stream = {{"forward", *ms + normal(random)}}});
        largest = std::max(largest, records.back().stream.front().second);
      }
      for (TestRecord& record : records) {
        record.wall_ms = largest + 10;
        record.stream.push_back({"all_reduce", record.wall_ms - record.stream.front().second});
      }
      live.put(own_of(break_down(step_of(records, layouts), layouts, stages)));
    }
    return live.judge(placement);
  }
  std::string sentence(const Verdict& verdict) { return sentence_of(verdict, stages, placement); }

  LayoutTable layouts;
  StageTable stages;
  Placement placement;
};

// The episode ended before the steps that are judged: it is over.
TEST_F(OverTime, AnEpisodeOfThePastIsNoVerdict) {
  const Verdict verdict = after(190, [](Rank rank, Step step) {
    return rank == 2 && step > 50 && step <= 80 ? 130.0 : (rank + step) % 8 == 0 ? 108.0 : 100.0;
  });
  EXPECT_EQ(verdict.kind, VerdictKind::rotating);
}

TEST_F(OverTime, WhoIsSlowNowGoesBeforeWhoWas) {
  for (const Step last : {215, 225, 240, 250, 270}) {
    const Verdict verdict =
        after(last, [](Rank rank, Step step) { return rank == (step <= 200 ? 2U : 5U) ? 110.0 : 100.0; });
    ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << last << ": " << sentence(verdict);
    EXPECT_THAT(verdict.held->ranks, ElementsAre(5)) << last;
    EXPECT_NEAR(static_cast<double>(verdict.held->since.value_or(0)), 201, 2);
    EXPECT_NEAR(verdict.held->excess_ms, 10, 1);
  }
}

TEST_F(OverTime, ADeadRankHoldsNobodyBack) {
  for (const Step last : {155, 170, 190, 220}) {
    const Verdict verdict = after(last, [](Rank rank, Step step) -> std::optional<double> {
      if (rank == 2) return step <= 150 ? std::optional(120.0) : std::nullopt;
      return rank == 5 ? 110.0 : 100.0;
    });
    ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << last << ": " << sentence(verdict);
    EXPECT_THAT(verdict.held->ranks, ElementsAre(5)) << last;
  }
}

TEST_F(OverTime, SlowAgainAfterARepair) {
  for (const double slow : {105.0, 115.0})
    for (const Step last : {965, 980, 1000, 1040}) {
      const Verdict verdict = after(last, [&](Rank rank, Step step) {
        return rank == 2 && ((step > 100 && step <= 600) || step > 950) ? slow : 100.0;
      });
      ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << last << ": " << sentence(verdict);
      EXPECT_THAT(verdict.held->ranks, ElementsAre(2));
      EXPECT_NEAR(static_cast<double>(verdict.held->since.value_or(0)), 951, 3) << last;
    }
}

TEST_F(OverTime, WhoIsOvertakenIsNotNamed) {
  for (const Step last : {175, 190, 210, 240}) {
    const Verdict verdict = after(last, [](Rank rank, Step step) {
      return rank == 5 ? 107.0 : rank == 2 && step > 160 ? 120.0 : 100.0;
    });
    ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << last << ": " << sentence(verdict);
    EXPECT_THAT(verdict.held->ranks, ElementsAre(2)) << last;
  }
}

TEST_F(OverTime, ARankThatJoinsSlowIsSlowSinceThen) {
  for (const Step last : {195, 220}) {
    const Verdict verdict = after(
        last,
        [](Rank rank, Step step) -> std::optional<double> {
          if (rank == 8) return step > 180 ? std::optional(120.0) : std::nullopt;
          return 100.0;
        },
        9);
    ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << last << ": " << sentence(verdict);
    EXPECT_THAT(verdict.held->ranks, ElementsAre(8));
    EXPECT_EQ(verdict.held->since, 181);
    EXPECT_DOUBLE_EQ(verdict.held->share, 1);
  }
}

// Slow before as well: the few steps since it is slower are not all there is to go by.
TEST_F(OverTime, WhoGetsSlowerStaysNamed) {
  for (Step last = 195; last <= 206; ++last) {
    const Verdict verdict =
        after(last, [](Rank rank, Step step) { return rank == 2 ? (step <= 195 ? 105.0 : 112.0) : 100.0; });
    ASSERT_EQ(verdict.kind, VerdictKind::one_rank) << last << ": " << sentence(verdict);
  }
}

// Many times the others' own time, and more times still: their degrees are told apart.
TEST_F(OverTime, OfTwoThatAreManyTimesSlowerTheSlowestIsNamed) {
  const Verdict verdict = after(60, [](Rank rank, Step) {
    return rank == 2 ? 1000.0 : rank == 1 ? 300.0 : 100.0;
  });
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_THAT(verdict.held->ranks, ElementsAre(2));
}

// Neither accuses somebody's 1.5 %, nor enters the figures of the 5 %.
TEST_F(OverTime, SomebodysPauseIsInNoFigure) {
  const auto job = [](double slow) {
    return [slow](Rank rank, Step step) {
      return rank == 5 && step == 150 ? 60000.0 : rank == 2 ? slow : 100.0;
    };
  };
  EXPECT_FALSE(after(200, job(101.5)).held.has_value());
  const Verdict verdict = after(200, job(105));
  ASSERT_TRUE(verdict.held.has_value());
  EXPECT_NEAR(verdict.held->wall_ms, 115, 1);
  EXPECT_NEAR(verdict.held->excess_ms, 5, 0.5);
}

TEST_F(OverTime, NowAndThenIsSaid) {
  const Verdict verdict =
      after(200, [](Rank rank, Step step) { return rank == 0 && step % 5 == 0 ? 150.0 : 100.0; });
  EXPECT_EQ(verdict.kind, VerdictKind::rotating);
  EXPECT_THAT(
      sentence(verdict),
      HasSubstr(
          "no rank holds all steps back; rank 0 does in 29 of 100, above all in forward, which costs 9."));
}

}  // namespace
}  // namespace laggard::core
