#include "daemon/core/live_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/core/breakdown.h"
#include "tests/support/records.h"

namespace laggard::core {
namespace {

using test::step_of;
using test::TestRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LiveVerdictOf : public ::testing::Test {
 protected:
  LiveVerdictOf() { stages.intern("forward"); }

  StepView step(Step number, const std::vector<double>& forward, bool aside = false) {
    std::vector<TestRecord> records;
    for (std::size_t i = 0; i < forward.size(); ++i)
      records.push_back({.rank = static_cast<Rank>(i),
                         .step = number,
                         .wall_ms = *std::ranges::max_element(forward) + 20,
                         .stream = {{"forward", forward[i]}}});
    StepView made{.breakdown = break_down(step_of(records, layouts), layouts, stages)};
    made.breakdown.aside = aside;
    made.state = StepState::complete;
    return made;
  }
  const Verdict& verdict() {
    view = live.view(stages);
    return view->verdict;
  }
  const std::string& sentence() {
    view = live.view(stages);
    return view->sentence;
  }

  LayoutTable layouts;
  StageTable stages;
  LiveVerdict live;
  std::shared_ptr<const VerdictView> view;
};

TEST_F(LiveVerdictOf, TheFirstStepsAreAllThereIsUntilOthersCome) {
  for (Step number = 1; number <= 10; ++number) live.put(step(number, {100, 100, 300}));
  EXPECT_EQ(verdict().kind, VerdictKind::one_rank);
  EXPECT_TRUE(verdict().tentative);
  live.put(step(11, {100, 100, 100}));
  EXPECT_EQ(verdict().steps, 1U);
  for (Step number = 12; number <= 14; ++number) live.put(step(number, {100, 100, 100}));
  EXPECT_EQ(verdict().kind, VerdictKind::balanced);
  EXPECT_EQ(verdict().from, 11);
}

TEST_F(LiveVerdictOf, AWarmUpStepThatComesAgainStaysOut) {
  for (Step number = 1; number <= 15; ++number) live.put(step(number, {100, 100, 100}));
  live.put(step(3, {100, 100, 900}));
  EXPECT_EQ(verdict().from, 11);
}

// Steps that are aside are among the first ten as they are in a report.
TEST_F(LiveVerdictOf, AsideStepsCountAsWarmUpAndAreNotJudged) {
  for (Step number = 1; number <= 20; ++number) live.put(step(number, {100, 100, 100}, number % 2 == 0));
  EXPECT_EQ(verdict().from, 11);
  EXPECT_EQ(verdict().steps, 5U);
}

TEST_F(LiveVerdictOf, AConfiguredWindowTakesThePlaceOfTheWarmUp) {
  Settings settings;
  settings.first_step = 3;
  settings.last_step = 7;
  live.learn(0, settings, "");
  for (Step number = 1; number <= 20; ++number) live.put(step(number, {100, 100, 100}));
  EXPECT_EQ(verdict().from, 3);
  EXPECT_EQ(verdict().to, 7);
}

// After a restart: 7 steps came before, so that 3 of those that are put are warm-up still.
TEST_F(LiveVerdictOf, StepsBeforeARestartAreWarmUpToo) {
  live.came_before(7);
  for (Step number = 8; number <= 20; ++number) live.put(step(number, {100, 100, 100}));
  EXPECT_EQ(verdict().from, 11);
}

TEST_F(LiveVerdictOf, LongAfterTheStartNothingIsWarmUp) {
  live.came_before(500);
  live.put(step(501, {100, 100, 100}));
  live.put(step(502, {100, 100, 100}));
  EXPECT_EQ(verdict().from, 501);
  EXPECT_EQ(verdict().steps, 2U);
}

TEST_F(LiveVerdictOf, AStepThatIsOpenAgainIsNotJudged) {
  for (Step number = 1; number <= 20; ++number) live.put(step(number, {100, 100, 100}));
  live.drop(15);
  EXPECT_EQ(verdict().steps, 9U);
}

TEST_F(LiveVerdictOf, PlacesCanBeLearntAtAnyTime) {
  for (Step number = 1; number <= 30; ++number) live.put(step(number, {100, 100, 150, 151, 100, 100}));
  EXPECT_EQ(verdict().kind, VerdictKind::several_ranks);
  for (Rank rank = 0; rank < 6; ++rank) live.learn(rank, Settings{}, rank / 2 == 1 ? "slowhost" : "other");
  EXPECT_EQ(verdict().kind, VerdictKind::one_group);
  EXPECT_THAT(sentence(), HasSubstr("host slowhost"));
}

TEST_F(LiveVerdictOf, ARestingOneKeepsItsLastVerdict) {
  for (Step number = 1; number <= 40; ++number) live.put(step(number, {100, 100, 150}));
  const std::string last = sentence();
  live.rest(stages);
  live.learn(1, Settings{}, "node1");
  live.put(step(30, {100, 900, 150}));
  live.drop(20);
  live.clear();
  EXPECT_EQ(sentence(), last);
  // The rank goes on: what it said before is in storage alone.
  for (Step number = 41; number <= 44; ++number) live.put(step(number, {150, 100, 100}));
  EXPECT_EQ(verdict().from, 41);
  EXPECT_THAT(verdict().held->ranks, ElementsAre(0));
  EXPECT_TRUE(verdict().tentative);
}

TEST_F(LiveVerdictOf, ARunThatWasOverSaysWhereItsVerdictIs) {
  live.was_over(200);
  EXPECT_THAT(sentence(), HasSubstr("the run was over when this collector started"));
  EXPECT_EQ(verdict().kind, VerdictKind::unknown);
  live.put(step(200, {100, 100, 100}));  // a late record
  EXPECT_THAT(sentence(), HasSubstr("the run was over when this collector started"));
  live.put(step(201, {100, 100, 100}));
  EXPECT_EQ(sentence(), "no verdict yet: 1 of 3 steps");
}

}  // namespace
}  // namespace laggard::core
