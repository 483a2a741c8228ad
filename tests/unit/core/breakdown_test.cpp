#include "daemon/core/breakdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/records.h"

namespace laggard::core {
namespace {

using test::step_of;
using test::TestRecord;

class Breakdown : public ::testing::Test {
 protected:
  StepBreakdown of(const std::vector<TestRecord>& records) {
    for (const TestRecord& record : records) {
      for (const auto& [name, time] : record.stream) stages.intern(name);
      for (const auto& [name, time] : record.host) stages.intern(name);
    }
    return break_down(step_of(records, layouts), layouts, stages);
  }
  void inside(const std::string& child, const std::string& parent) {
    const StageId child_id = stages.intern(child), parent_id = stages.intern(parent);
    ASSERT_TRUE(stages.set_parent(child_id, parent_id, Knowledge::profile));
  }
  void sync(const std::string& name) {
    stages.set_kind(stages.intern(name), StageKind::sync, Knowledge::profile);
  }
  const StageBreakdown* find(const StepBreakdown& step, const std::string& name,
                             Clock clock = Clock::stream) {
    for (const StageBreakdown& stage : step.stages)
      if (stages[stage.stage].name == name && stage.clock == clock) return &stage;
    return nullptr;
  }

  LayoutTable layouts;
  StageTable stages;
};

TEST_F(Breakdown, SlowestIsTheLargestWallAndTheLowestRankOnATie) {
  const StepBreakdown step = of({{.rank = 2, .step = 1, .wall_ms = 7},
                                 {.rank = 1, .step = 1, .wall_ms = 7},
                                 {.rank = 0, .step = 1, .wall_ms = 5}});
  EXPECT_EQ(step.slowest, 1U);
  EXPECT_EQ(step.wall.min_rank, 0U);
  EXPECT_DOUBLE_EQ(step.wall.median, 7);
  EXPECT_DOUBLE_EQ(step.wall.mean, 19.0 / 3);
  EXPECT_FALSE(step.near_tie);
}

TEST_F(Breakdown, WallsWithinAThousandthAreANearTie) {
  EXPECT_TRUE(
      of({{.rank = 0, .step = 1, .wall_ms = 10000}, {.rank = 1, .step = 1, .wall_ms = 10010}}).near_tie);
  EXPECT_FALSE(
      of({{.rank = 0, .step = 1, .wall_ms = 10000}, {.rank = 1, .step = 1, .wall_ms = 10011}}).near_tie);
  EXPECT_FALSE(of({{.rank = 0, .step = 1, .wall_ms = 10000}}).near_tie);
}

// A04 and A11: what is no usable number neither wins nor loses, and is counted.
TEST_F(Breakdown, BadWallsTakeNoPart) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const StepBreakdown step = of({{.rank = 0, .step = 1, .wall_ms = nan},
                                 {.rank = 1, .step = 1, .wall_ms = inf},
                                 {.rank = 2, .step = 1, .wall_ms = -3},
                                 {.rank = 3, .step = 1, .wall_ms = kNull},
                                 {.rank = 4, .step = 1, .wall_ms = 9},
                                 {.rank = 5, .step = 1, .wall_ms = 8}});
  EXPECT_EQ(step.slowest, 4U);
  EXPECT_EQ(step.wall.present, 2U);
  EXPECT_DOUBLE_EQ(step.wall.mean, 8.5);
  EXPECT_EQ(step.invalid_values, 3U);  // a null is missing, not invalid
  EXPECT_EQ(of({{.rank = 0, .step = 2, .wall_ms = nan}}).slowest, std::nullopt);
}

// A10: figures are over the ranks that have the stage.
TEST_F(Breakdown, AnAbsentStageIsNotZero) {
  const StepBreakdown step = of({{.rank = 0, .step = 1, .wall_ms = 9000, .stream = {{"embed", 300}}},
                                 {.rank = 1, .step = 1, .wall_ms = 9000, .stream = {{"recv_forward", 400}}},
                                 {.rank = 2, .step = 1, .wall_ms = 9010, .stream = {{"recv_forward", 900}}}});
  const StageBreakdown* recv = find(step, "recv_forward");
  ASSERT_NE(recv, nullptr);
  EXPECT_EQ(recv->spread.present, 2U);
  EXPECT_DOUBLE_EQ(recv->spread.min, 400);
  EXPECT_DOUBLE_EQ(recv->spread.mean, 650);
  EXPECT_DOUBLE_EQ(recv->spread.median, 650);
  EXPECT_EQ(recv->spread.max_rank, 2U);
  EXPECT_DOUBLE_EQ(recv->others_median_ms, 400);  // of rank 1 alone: rank 2 is the slowest
  EXPECT_DOUBLE_EQ(recv->others_max_ms, 400);
  EXPECT_EQ(state_of(find(step, "embed")->slowest_ms), ValueState::absent);  // rank 2 has none
  EXPECT_DOUBLE_EQ(find(step, "embed")->others_median_ms, 300);
}

TEST_F(Breakdown, TheCulpritsStagesStandBesideThoseOfTheSlowest) {
  sync("backward");
  const auto record = [](Rank rank, double wall, double forward, double backward) {
    return TestRecord{
        .rank = rank, .step = 1, .wall_ms = wall, .stream = {{"forward", forward}, {"backward", backward}}};
  };
  const StepBreakdown step = of({record(0, 1000, 400, 600), record(1, 1001, 400, 600),
                                 record(2, 1000, 800, 200), record(3, 1000, 400, 600)});
  ASSERT_TRUE(step.culprit.has_value());
  EXPECT_EQ(step.slowest, 1U);
  EXPECT_DOUBLE_EQ(find(step, "forward")->slowest_ms, 400);
  EXPECT_DOUBLE_EQ(find(step, "forward")->culprit_ms, 800);
  EXPECT_DOUBLE_EQ(find(step, "backward")->culprit_ms, 200);
}

// A09: exclusive times of a nest, on the slowest rank; a negative one is shown as it is.
TEST_F(Breakdown, ExclusiveTimes) {
  inside("vision_forward", "forward_and_loss");
  inside("geometry_total", "forward_and_loss");
  inside("language_forward", "forward_and_loss");
  inside("vggt_single", "geometry_total");
  const auto step_with = [&](double geometry) {
    return of({{.rank = 0,
                .step = 1,
                .wall_ms = 14600,
                .stream = {{"vision_forward", 600},
                           {"geometry_total", geometry},
                           {"vggt_single", 4000},
                           {"language_forward", 2700},
                           {"forward_and_loss", 8310}}}});
  };
  const StepBreakdown fine = step_with(5000);
  EXPECT_DOUBLE_EQ(find(fine, "forward_and_loss")->slowest_exclusive_ms, 10);
  EXPECT_DOUBLE_EQ(find(fine, "geometry_total")->slowest_exclusive_ms, 1000);
  EXPECT_EQ(state_of(find(fine, "vggt_single")->slowest_exclusive_ms), ValueState::absent);
  EXPECT_DOUBLE_EQ(find(step_with(6000), "forward_and_loss")->slowest_exclusive_ms, -990);
}

TEST_F(Breakdown, ANullChildMakesTheExclusiveTimeUnknown) {
  inside("a", "whole");
  inside("b", "whole");
  const StepBreakdown step =
      of({{.rank = 0, .step = 1, .wall_ms = 10, .stream = {{"whole", 9}, {"a", kNull}, {"b", 2}}},
          {.rank = 1, .step = 1, .wall_ms = 9, .stream = {{"whole", 3}, {"a", 1}, {"b", 1}}}});
  EXPECT_EQ(state_of(find(step, "whole")->slowest_exclusive_ms), ValueState::absent);
  EXPECT_EQ(find(step, "a")->null, 1U);
  EXPECT_EQ(step.own.present, 1U);        // rank 0's own time cannot be known
  EXPECT_EQ(step.culprit, std::nullopt);  // so nobody is blamed
}

// A14: walls tie, and the rank that waits least in the synchronising stage is the one that others wait for.
TEST_F(Breakdown, TheCulpritIsTheRankThatWaitsLeast) {
  sync("backward");
  std::vector<TestRecord> records;
  for (Rank rank = 0; rank < 4; ++rank) {
    const double forward = rank == 2 ? 9500 : 8000;
    records.push_back(
        {.rank = rank,
         .step = 1,
         .wall_ms = 15600,
         .stream = {{"forward", forward}, {"backward", 15500 - forward}, {"micro_step_total", 15520}}});
  }
  inside("forward", "micro_step_total");
  inside("backward", "micro_step_total");
  const StepBreakdown step = of(records);
  EXPECT_TRUE(step.near_tie);
  ASSERT_TRUE(step.culprit.has_value());
  EXPECT_EQ(step.culprit->rank, 2U);
  EXPECT_EQ(stages[step.culprit->stage].name, "forward");
  EXPECT_DOUBLE_EQ(step.culprit->own_excess_ms, 1500);
  EXPECT_DOUBLE_EQ(step.culprit->stage_excess_ms, 1500);
}

TEST_F(Breakdown, NobodyIsBlamedForAPercentOrLess) {
  const auto step_with = [&](double forward) {
    return of({{.rank = 0, .step = 1, .wall_ms = 1000, .stream = {{"forward", 500}}},
               {.rank = 1, .step = 1, .wall_ms = 1000, .stream = {{"forward", 500}}},
               {.rank = 2, .step = 1, .wall_ms = 1000, .stream = {{"forward", forward}}}});
  };
  EXPECT_EQ(step_with(510).culprit, std::nullopt);
  EXPECT_EQ(step_with(511).culprit->rank, 2U);
}

TEST_F(Breakdown, OneClockIsComparedAndNamed) {
  const StepBreakdown mixed =
      of({{.rank = 0, .step = 1, .wall_ms = 9, .stream = {{"f", 5}}, .host = {{"f", 1}}},
          {.rank = 1, .step = 1, .wall_ms = 9, .stream = {{"f", 5}}, .host = {{"f", 1}}},
          {.rank = 2, .step = 1, .wall_ms = 9, .host = {{"f", 9}}}});
  EXPECT_EQ(mixed.clock, Clock::stream);
  EXPECT_EQ(mixed.own.present, 2U);
  EXPECT_EQ(mixed.culprit, std::nullopt);
  EXPECT_EQ(of({{.rank = 0, .step = 2, .wall_ms = 9, .host = {{"f", 1}}}}).clock, Clock::host);
}

TEST_F(Breakdown, TagsAndAsideStagesTakeAStepOutOfWindows) {
  EXPECT_TRUE(of({{.rank = 0, .step = 1, .wall_ms = 9, .stream = {{"checkpoint_save", 5}}}}).aside);
  EXPECT_TRUE(of({{.rank = 0, .step = 1, .wall_ms = 9, .rest = {.tags = {"eval"}}}}).aside);
  EXPECT_FALSE(of({{.rank = 0, .step = 1, .wall_ms = 9, .stream = {{"checkpoint_save", kNull}}}}).aside);
}

TEST_F(Breakdown, DoesNotDependOnTheOrderOfArrival) {
  std::vector<TestRecord> records;
  for (Rank rank = 0; rank < 7; ++rank)
    records.push_back({.rank = rank,
                       .step = 1,
                       .wall_ms = 1000 + 0.1 * rank,
                       .stream = {{"f", 100.0 / 3 * (rank + 1)}, {"b", 0.1 * rank}}});
  const StepBreakdown forth = of(records);
  std::reverse(records.begin(), records.end());
  const StepBreakdown back = of(records);
  EXPECT_EQ(forth.slowest, back.slowest);
  EXPECT_EQ(forth.wall.mean, back.wall.mean);
  for (std::size_t i = 0; i < forth.stages.size(); ++i)
    EXPECT_EQ(forth.stages[i].spread.mean, back.stages[i].spread.mean);
}

TEST(StepRecords, KeepsBlocksApart) {
  LayoutTable layouts;
  const StepRecords step = step_of({{.rank = 2047, .step = 1, .wall_ms = 3},
                                    {.rank = 0, .step = 1, .wall_ms = 1},
                                    {.rank = 1024, .step = 1, .wall_ms = 2}},
                                   layouts);
  EXPECT_EQ(step.ranks(), (std::vector<Rank>{0, 1024, 2047}));
  ASSERT_EQ(step.block_count(), 2U);
  EXPECT_EQ(step.block(1)->size(), 2U);
  EXPECT_EQ(step.find(2047, layouts)->wall_ms(), 3);
  EXPECT_FALSE(step.contains(1025));
  StepRecords again(1);
  EXPECT_FALSE(again.add_block(0, *step.block(1)));  // ranks of another block
  EXPECT_TRUE(again.add_block(1, *step.block(1)));
  EXPECT_FALSE(again.add_block(1, *step.block(1)));
  EXPECT_EQ(again.size(), 2U);
}

// A data loader is timed by the host alone, and counts; what else only the host has timed may be its waiting
// for the device.
TEST_F(Breakdown, InputThatOnlyTheHostTimedIsOwnTime) {
  stages.set_kind(stages.intern("load"), StageKind::input, Knowledge::records);
  const auto record = [](Rank rank, double load, double item) {
    return TestRecord{.rank = rank,
                      .step = 1,
                      .wall_ms = 1000,
                      .stream = {{"forward", 500}},
                      .host = {{"forward", 3}, {"load", load}, {"loss_item", item}}};
  };
  const StepBreakdown step = of({record(0, 50, 400), record(1, 50, 400), record(2, 350, 100)});
  EXPECT_EQ(step.clock, Clock::stream);
  EXPECT_DOUBLE_EQ(step.own.max, 850);
  EXPECT_DOUBLE_EQ(step.own.min, 550);
  ASSERT_TRUE(step.culprit.has_value());
  EXPECT_EQ(step.culprit->rank, 2U);
  EXPECT_EQ(stages[step.culprit->stage].name, "load");
  EXPECT_DOUBLE_EQ(step.culprit->stage_excess_ms, 300);

  inside("load", "forward");  // then its time is part of what the stream has timed
  EXPECT_FALSE(of({record(0, 50, 400), record(1, 50, 400), record(2, 350, 100)}).culprit.has_value());
}

TEST_F(Breakdown, ARankWithoutStreamTimesIsNotFastForIt) {
  stages.set_kind(stages.intern("load"), StageKind::input, Knowledge::records);
  const StepBreakdown step =
      of({{.rank = 0, .step = 1, .wall_ms = 500, .stream = {{"forward", 400}}, .host = {{"load", 10}}},
          {.rank = 1, .step = 1, .wall_ms = 500, .stream = {{"forward", 400}}, .host = {{"load", 10}}},
          {.rank = 2, .step = 1, .wall_ms = 500, .stream = {}, .host = {{"forward", 400}, {"load", 10}}}});
  EXPECT_EQ(step.own.present, 2U);
  EXPECT_DOUBLE_EQ(step.own.min, 410);
  EXPECT_FALSE(step.culprit.has_value());
}

}  // namespace
}  // namespace laggard::core
