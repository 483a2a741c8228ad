#include "daemon/store/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "daemon/base/value.h"
#include "daemon/store/store.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using test::kAttempt;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kHour = std::chrono::hours(1);

class ReaderTest : public ::testing::Test {
 protected:
  void commit_steps(Step from, Step to) {
    core::Writes writes;
    for (Step step = from; step <= to; ++step) sample_.add_step(step, {0, 1, 2, 3}, &writes);
    store_.commit(writes);
  }
  std::vector<Step> steps_of(Reader& reader, const StepRange& range) {
    std::vector<Step> steps;
    for (const core::StepView& view : reader.steps(kAttempt, range)) steps.push_back(view.breakdown.step);
    return steps;
  }

  test::TempDir dir_;
  test::Sample sample_;
  Store store_{dir_.path()};
};

TEST_F(ReaderTest, AStepComesBackAsItWasWritten) {
  core::Writes writes = sample_.facts();
  sample_.add_step(5, {0, 1, 2}, &writes);
  const auto written = writes.steps[0].view;
  store_.commit(writes);
  Reader reader(store_.database_path(), kHour);
  const std::optional<StoredStep> step = reader.step(kAttempt, 5);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(test::describe(step->view), test::describe(*written));
  ASSERT_NE(step->records, nullptr);
  EXPECT_EQ(test::describe(*step->records, reader.layouts()),
            test::describe(sample_.add_records(5, {0, 1, 2}), sample_.layouts));
  EXPECT_FALSE(reader.step(kAttempt, 6).has_value());
  EXPECT_FALSE(reader.step(kAttempt + 1, 5).has_value());
}

TEST_F(ReaderTest, AnEmptyBreakdownComesBackEmpty) {
  auto view = std::make_shared<core::StepView>();
  view->breakdown.step = 1;
  view->breakdown.wall.present = 2;
  view->breakdown.wall = {.present = 2, .min = 1, .median = 2, .mean = 2, .max = 3};
  view->breakdown.slowest = 0;
  view->breakdown.culprit = core::Culprit{.rank = 0, .own_excess_ms = 4};
  core::Writes writes = sample_.facts();
  writes.steps.push_back({.attempt = kAttempt, .view = view});
  store_.commit(writes);
  Reader reader(store_.database_path(), kHour);
  const std::optional<StoredStep> step = reader.step(kAttempt, 1);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(test::describe(step->view), test::describe(*view));
  EXPECT_EQ(step->records, nullptr);
}

TEST_F(ReaderTest, SlowestTimesKeepHowTheyCameIn) {
  const auto view = test::Sample::view(1);
  view->breakdown.stages.clear();
  const std::vector<double> values{kAbsent,
                                   kNull,
                                   kText,
                                   -2.5,
                                   std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN(),
                                   0.0};
  core::Writes writes = sample_.facts();
  for (std::size_t i = 0; i < values.size(); ++i) {
    writes.stages[0].second.push_back({.name = "s" + std::to_string(i)});
    view->breakdown.stages.push_back({.stage = static_cast<core::StageId>(i), .slowest_ms = values[i]});
  }
  writes.steps.push_back({.attempt = kAttempt, .view = view});
  store_.commit(writes);
  Reader reader(store_.database_path(), kHour);
  const std::optional<StoredStep> step = reader.step(kAttempt, 1);
  ASSERT_TRUE(step.has_value());
  ASSERT_EQ(step->view.breakdown.stages.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint64_t>(step->view.breakdown.stages[i].slowest_ms),
              std::bit_cast<std::uint64_t>(values[i]))
        << i;
}

TEST_F(ReaderTest, RangesOfStepsAscendAndTheLimitTakesEitherEnd) {
  store_.commit(sample_.facts());
  commit_steps(-2, 6);
  Reader reader(store_.database_path(), kHour);
  EXPECT_THAT(steps_of(reader, {.limit = 100}), ElementsAre(-2, -1, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(steps_of(reader, {.limit = 2}), ElementsAre(-2, -1));
  EXPECT_THAT(steps_of(reader, {.limit = 2, .newest = true}), ElementsAre(5, 6));
  EXPECT_THAT(steps_of(reader, {.from = 0, .to = 3, .limit = 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(steps_of(reader, {.from = 0, .to = 3, .limit = 3, .newest = true}), ElementsAre(1, 2, 3));
  EXPECT_THAT(steps_of(reader, {.from = 7, .limit = 3}), IsEmpty());
  EXPECT_THAT(reader.steps(kAttempt, {.limit = 1})[0].breakdown.stages, IsEmpty());
}

TEST_F(ReaderTest, KnowsAttemptsRanksAndStages) {
  core::Writes writes = sample_.facts();
  writes.attempts.push_back({.id = 3, .run = 1, .attempt = 2});
  writes.ranks.push_back({.attempt = kAttempt, .rank = 10, .settings = "{}", .host = "n"});
  writes.ranks.push_back({.attempt = kAttempt, .rank = 9});
  store_.commit(writes);
  Reader reader(store_.database_path(), kHour);
  const std::vector<core::AttemptRow> attempts = reader.attempts("job");
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].id, kAttempt);
  EXPECT_EQ(attempts[1].id, 3);
  EXPECT_THAT(reader.attempts("no such run"), IsEmpty());
  const std::vector<core::RankRow> ranks = reader.ranks(kAttempt);
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].rank, 9U);
  EXPECT_EQ(ranks[1].settings, "{}");
  const core::StageTable stages = reader.stages(kAttempt);
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[test::kForward].name, "forward");
  EXPECT_EQ(stages[test::kBackward].kind, core::StageKind::sync);
  EXPECT_EQ(stages[test::kBackward].kind_from, core::Knowledge::profile);
}

TEST_F(ReaderTest, StreamsEveryStepInOrderAcrossSlicesWhileTheWriterGoesOn) {
  store_.commit(sample_.facts());
  // Some 6 MiB of blocks: more than a slice.
  std::vector<Rank> ranks(2'000);
  for (Rank rank = 0; rank < ranks.size(); ++rank) ranks[rank] = rank;
  core::Writes writes;
  constexpr Step kSteps = 40;
  for (Step step = 1; step <= kSteps; ++step) sample_.add_step(step, ranks, &writes);
  store_.commit(writes);
  Reader reader(store_.database_path(), kHour);
  std::vector<Step> seen;
  reader.for_each_step(kAttempt, std::nullopt, std::nullopt, [&](const core::StepRecords& records) {
    EXPECT_EQ(records.size(), records.step() <= kSteps ? ranks.size() : 4);
    if (seen.empty()) commit_steps(kSteps + 1, kSteps + 1);
    seen.push_back(records.step());
    return true;
  });
  std::vector<Step> expected;
  for (Step step = 1; step <= kSteps + 1; ++step) expected.push_back(step);
  EXPECT_EQ(seen, expected);
}

TEST_F(ReaderTest, StreamsOnlyTheWindow) {
  store_.commit(sample_.facts());
  commit_steps(1, 9);
  Reader reader(store_.database_path(), kHour);
  std::vector<Step> seen;
  const auto note = [&](const core::StepRecords& records) {
    seen.push_back(records.step());
    return true;
  };
  reader.for_each_step(kAttempt, 3, 5, note);
  EXPECT_THAT(seen, ElementsAre(3, 4, 5));
  seen.clear();
  reader.for_each_step(kAttempt, 9, std::numeric_limits<Step>::max(), note);
  EXPECT_THAT(seen, ElementsAre(9));
  seen.clear();
  reader.for_each_step(kAttempt, std::nullopt, std::nullopt, [&](const core::StepRecords& records) {
    seen.push_back(records.step());
    return records.step() < 2;
  });
  EXPECT_THAT(seen, ElementsAre(1, 2));
  seen.clear();
  reader.for_each_step(kAttempt, 10, std::nullopt, note);
  EXPECT_THAT(seen, IsEmpty());
}

TEST_F(ReaderTest, FindsLayoutsThatCameAfterItWasOpened) {
  store_.commit(sample_.facts());
  Reader reader(store_.database_path(), kHour);
  EXPECT_EQ(reader.layouts().size(), 1U);
  const LayoutId id = sample_.layouts.intern({.stream = {"new"}});
  const std::vector<double> doubles{1, 2};
  core::StepRecords records(1);
  records.add({.step = 1, .rank = 0, .layout = &sample_.layouts[id], .doubles = doubles}, id);
  core::Writes writes;
  writes.layouts.emplace_back(id, &sample_.layouts[id]);
  writes.steps.push_back(
      {.attempt = kAttempt, .view = test::Sample::view(1), .blocks = {{0, records.block(0)}}});
  store_.commit(writes);
  std::size_t seen = 0;
  reader.for_each_step(kAttempt, std::nullopt, std::nullopt, [&](const core::StepRecords& step) {
    ++seen;
    EXPECT_EQ(step.find(0, reader.layouts())->layout->stream[0], "new");
    return true;
  });
  EXPECT_EQ(seen, 1U);
}

TEST_F(ReaderTest, AQueryOverItsLimitStopsAndIsToldApart) {
  store_.commit(sample_.facts());
  commit_steps(1, 500);
  Reader reader(store_.database_path(), std::chrono::milliseconds(0));
  EXPECT_THROW(reader.steps(kAttempt, {.limit = 500}), QueryTimeout);
  int seen = 0;
  EXPECT_THROW(
      reader.for_each_step(kAttempt, std::nullopt, std::nullopt, [&](const auto&) { return ++seen > 0; }),
      QueryTimeout);
  EXPECT_EQ(seen, 0);
  // Nothing stays open after that: the writer's log can still be cut back.
  Database other(store_.database_path().string(), Database::Mode::read_write);
  EXPECT_EQ(other.integer("PRAGMA wal_checkpoint(TRUNCATE)"), 0) << "0: not held up by a reader";
}

TEST_F(ReaderTest, LayoutsHaveALimitOfTheirOwn) {
  core::Writes writes = sample_.facts();
  for (int i = 0; i < 500; ++i) sample_.layouts.intern({.stream = {"stage " + std::to_string(i)}});
  for (LayoutId id = 1; id < sample_.layouts.size(); ++id)
    writes.layouts.emplace_back(id, &sample_.layouts[id]);
  store_.commit(writes);
  // Nothing was called before that could have set it.
  Reader reader(store_.database_path(), std::chrono::milliseconds(0));
  EXPECT_THROW(reader.layouts(), QueryTimeout);
}

TEST_F(ReaderTest, ASlowReceiverHoldsNoTransaction) {
  store_.commit(sample_.facts());
  commit_steps(1, 3);
  Reader reader(store_.database_path(), kHour);
  Database other(store_.database_path().string(), Database::Mode::read_write);
  reader.for_each_step(kAttempt, std::nullopt, std::nullopt, [&](const auto&) {
    EXPECT_EQ(other.integer("PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    return true;
  });
}

}  // namespace
}  // namespace laggard::store
