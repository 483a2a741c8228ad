#include "daemon/store/store.h"
#include "daemon/store/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "daemon/base/value.h"
#include "daemon/store/reader.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using test::kAttempt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

class StoreTest : public ::testing::Test {
 protected:
  test::TempDir dir_;
  test::Sample sample_;
};

TEST_F(StoreTest, RecordsComeBackWithEveryBit) {
  Store store(dir_.path());
  const LayoutId id = sample_.layouts.intern({.stream = {"a", "b", "c", "d", "e", "f"},
                                              .host = {},
                                              .calls = {},
                                              .counts = {"n", "m"},
                                              .int_values = {"i"},
                                              .values = {"v"}});
  const double measured_nan = std::bit_cast<double>(0xfff8'0000'0000'00ff);
  const std::vector<double> doubles{
      kNull, kText, kAbsent, -0.0, -12.5, measured_nan, std::numeric_limits<double>::infinity(), 5e-324};
  const std::vector<std::int64_t> ints{std::numeric_limits<std::int64_t>::min(),
                                       std::numeric_limits<std::int64_t>::max(), 0};
  const RecordRest rest{.histograms = {{.name = "shapes", .bins = {{"1x2", 3}, {"", -4}}}},
                        .tags = {"eval"},
                        .extra = R"({"unknown": [1, null]})"};
  core::StepRecords records(-3);
  records.add({.step = -3,
               .rank = 1'500,
               .layout = &sample_.layouts[id],
               .doubles = doubles,
               .ints = ints,
               .sample_indices = {},
               .rest = &rest},
              id);
  core::Writes writes = sample_.facts();
  writes.steps.push_back(
      {.attempt = kAttempt, .view = test::Sample::view(-3), .blocks = {{1, records.block(1)}}});
  store.commit(writes);

  Archive archive(store.database_path());
  const auto loaded = archive.load(kAttempt, -3);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(test::describe(*loaded->records, sample_.layouts), test::describe(records, sample_.layouts));
  EXPECT_FALSE(archive.load(kAttempt, -2).has_value());
  EXPECT_FALSE(archive.load(kAttempt + 1, -3).has_value());
}

TEST_F(StoreTest, AStepComesBackWithItsStateAndTimes) {
  Store store(dir_.path());
  core::Writes writes = sample_.facts();
  for (const Step step : {1, 2, 3}) sample_.add_step(step, {0, 1}, &writes);
  const auto open = test::Sample::view(2);
  open->state = core::StepState::open;
  open->first_received = 42;
  open->settled_at = 0;
  writes.steps[1].view = open;
  writes.steps[2].blocks.clear();  // kept no longer
  store.commit(writes);
  Archive archive(store.database_path());

  const auto settled = archive.load(kAttempt, 1);
  ASSERT_TRUE(settled.has_value());
  EXPECT_EQ(settled->state, core::StepState::partial);
  EXPECT_EQ(settled->first_received, 1'700'000'000'000);
  EXPECT_EQ(settled->settled_at, 1'700'000'000'500);
  const auto unsettled = archive.load(kAttempt, 2);
  ASSERT_TRUE(unsettled.has_value());
  EXPECT_EQ(unsettled->state, core::StepState::open);
  EXPECT_EQ(unsettled->first_received, 42);
  EXPECT_EQ(unsettled->settled_at, 0);
  EXPECT_FALSE(archive.load(kAttempt, 3).has_value());
}

core::Writes everything(test::Sample& sample) {
  core::Writes writes = sample.facts();
  writes.runs[0].closed = true;
  writes.runs.push_back({.id = 2, .name = "other"});
  writes.attempts.push_back({.id = 8, .run = 2, .attempt = 3});
  writes.ranks = {{.attempt = kAttempt,
                   .rank = 0,
                   .settings = R"({"rank":0})",
                   .host = "n1",
                   .ended = true,
                   .last_step = 4,
                   .last_received = 99,
                   .records = 5,
                   .last_wall_ms = kNull},
                  {.attempt = kAttempt, .rank = 3, .finished = true, .last_step = 0, .last_wall_ms = kText},
                  {.attempt = 8, .rank = 0, .last_wall_ms = -1},
                  {.attempt = 8, .rank = 1, .last_wall_ms = 0},
                  {.attempt = 8, .rank = 2, .last_wall_ms = -std::numeric_limits<double>::infinity()}};
  writes.sources = {{.key = 4,
                     .run = 1,
                     .rank = 3,
                     .id = "abc",
                     .host = "n1",
                     .origin = "/r.jsonl",
                     .pid = 12,
                     .started_unix_ms = 34,
                     .committed_seq = 56,
                     .base_offset = 1,
                     .attempt_offset = 2,
                     .attempt = 3,
                     .gone = true,
                     .counts = {.stored = 1,
                                .duplicate = 2,
                                .conflict = 3,
                                .late = 4,
                                .rejected = 5,
                                .dropped = 6,
                                .invalid_values = 7},
                     .lost = {{40, 44}, {46, 46}}},
                    {.key = 9, .run = 2, .id = "d"}};
  return writes;
}

TEST_F(StoreTest, ARestartGivesBackWhatWasWritten) {
  const core::Writes written = everything(sample_);
  std::string collector_id;
  {
    Store store(dir_.path());
    store.commit(written);
    collector_id = store.restore().collector_id;
  }
  Store store(dir_.path());
  const core::Restored restored = store.restore();
  EXPECT_EQ(restored.collector_id, collector_id);
  EXPECT_EQ(collector_id.size(), 32U);

  ASSERT_EQ(restored.runs.size(), 2U);
  EXPECT_EQ(restored.runs[0].id, 1);
  EXPECT_EQ(restored.runs[0].name, "job");
  EXPECT_EQ(restored.runs[0].created, 1'000);
  EXPECT_TRUE(restored.runs[0].closed);
  EXPECT_FALSE(restored.runs[1].closed);
  ASSERT_EQ(restored.attempts.size(), 2U);
  EXPECT_EQ(restored.attempts[0].id, kAttempt);
  EXPECT_EQ(restored.attempts[0].world_size, 4U);
  EXPECT_EQ(restored.attempts[0].last_received, 2'000);
  EXPECT_EQ(restored.attempts[1].run, 2);
  EXPECT_EQ(restored.attempts[1].attempt, 3U);
  EXPECT_EQ(restored.attempts[1].world_size, 0U);
  ASSERT_EQ(restored.ranks.size(), written.ranks.size());
  for (std::size_t i = 0; i < restored.ranks.size(); ++i)
    EXPECT_EQ(test::describe(restored.ranks[i]), test::describe(written.ranks[i]));
  ASSERT_EQ(restored.sources.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(test::describe(restored.sources[i]), test::describe(written.sources[i]));
  EXPECT_EQ(restored.stages, written.stages);
  EXPECT_THAT(restored.layouts, ElementsAre(sample_.layouts[0]));
}

TEST_F(StoreTest, SettingsCanChangeAndAreNotLostByALaterRow) {
  Store store(dir_.path());
  store.commit(everything(sample_));
  core::Writes writes;
  writes.ranks.push_back({.attempt = kAttempt, .rank = 0, .settings = R"({"rank":0,"seed":1})"});
  writes.ranks.push_back(
      {.attempt = kAttempt, .rank = 0, .settings = R"({"rank":0,"seed":1})", .last_step = 5});
  store.commit(writes);
  const core::RankRow row = store.restore().ranks[0];
  EXPECT_EQ(row.settings, R"({"rank":0,"seed":1})");
  EXPECT_EQ(row.last_step, 5);
}

TEST_F(StoreTest, ARestartFindsOpenStepsAndTheNewestOfEachAttempt) {
  Store store(dir_.path());
  core::Writes writes = everything(sample_);
  constexpr Step kSteps = 300;
  for (Step step = 0; step < kSteps; ++step) {
    auto view = test::Sample::view(step);
    view->state = step == 3 ? core::StepState::open : core::StepState::complete;
    if (step == 3) view->settled_at = 0;
    writes.steps.push_back({.attempt = kAttempt, .view = view});
  }
  writes.steps.push_back({.attempt = 8, .view = test::Sample::view(1)});
  store.commit(writes);

  const core::Restored restored = store.restore();
  ASSERT_EQ(restored.steps.size(), core::kHistoryPoints + 2);
  EXPECT_EQ(restored.steps[0].second.step, 3);
  EXPECT_EQ(restored.steps[0].second.state, core::StepState::open);
  EXPECT_EQ(restored.steps[0].second.wall_max_ms, test::Sample::view(3)->breakdown.wall.max);
  EXPECT_EQ(restored.steps[0].second.culprit, test::Sample::view(3)->breakdown.culprit->rank);
  EXPECT_EQ(restored.steps[1].second.step, kSteps - static_cast<Step>(core::kHistoryPoints));
  EXPECT_EQ(restored.steps[core::kHistoryPoints].second.step, kSteps - 1);
  EXPECT_EQ(restored.steps.back().first, 8);
  EXPECT_EQ(restored.steps.back().second.state, core::StepState::partial);
  using core::StepState;
  EXPECT_THAT(
      restored.steps_by_state,
      ElementsAre(Pair(kAttempt, ElementsAre(Pair(StepState::open, 1U), Pair(StepState::complete, 299U))),
                  Pair(8, ElementsAre(Pair(StepState::partial, 1U)))));
}

TEST_F(StoreTest, ASecondStoreOnTheDirectoryIsRefused) {
  const Store store(dir_.path());
  EXPECT_THAT([&] { Store second(dir_.path()); }, ThrowsMessage<Error>(HasSubstr("another laggardd")));
}

TEST_F(StoreTest, ADamagedBlockIsNamed) {
  Store store(dir_.path());
  core::Writes writes = sample_.facts();
  sample_.add_step(12, {0, 1}, &writes);
  store.commit(writes);
  Archive archive(store.database_path());
  Database other(store.database_path().string(), Database::Mode::read_write);
  other.execute("UPDATE steps SET step = 13");
  EXPECT_THAT([&] { archive.load(kAttempt, 12); }, ThrowsMessage<Error>(HasSubstr("no summary")));
  other.execute("UPDATE blocks SET records = x'00ff'");
  EXPECT_THAT([&] { archive.load(kAttempt, 12); },
              ThrowsMessage<Error>(HasSubstr("damaged: step 12, block 0")));
  other.execute("UPDATE blocks SET block = 1 << 40");
  EXPECT_THROW(archive.load(kAttempt, 12), Error);
}

TEST_F(StoreTest, ATruncatedFileIsRefused) {
  {
    Store store(dir_.path());
    core::Writes writes = sample_.facts();
    for (Step step = 0; step < 200; ++step) sample_.add_step(step, {0, 1, 2, 3}, &writes);
    store.commit(writes);
  }
  const std::filesystem::path file = dir_.path() / "laggard.db";
  std::filesystem::resize_file(file, 50'000);
  EXPECT_THAT([&] { Store store(dir_.path()); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr(file.string()), HasSubstr("damaged"))));
}

TEST_F(StoreTest, TheWalIsBoundedAndCutBackOnceNoReaderHoldsIt) {
  Store store(dir_.path());
  store.commit(sample_.facts());
  Step step = 0;
  const auto commit_4_mib = [&] {
    const RecordRest rest{.extra = std::string(std::size_t{4} << 20, static_cast<char>('a' + ++step % 26))};
    const std::vector<double> doubles(5, 1.0);
    const std::vector<std::int64_t> ints(2, 1);
    core::StepRecords records(step);
    records.add({.step = step,
                 .rank = 0,
                 .layout = &sample_.layouts[0],
                 .doubles = doubles,
                 .ints = ints,
                 .rest = &rest},
                0);
    core::Writes writes;
    writes.steps.push_back(
        {.attempt = kAttempt, .view = test::Sample::view(step), .blocks = {{0, records.block(0)}}});
    store.commit(writes);
  };
  {
    Database reader(store.database_path().string(), Database::Mode::read_only);
    const Transaction held(reader, Transaction::Kind::read);
    ASSERT_EQ(reader.integer("SELECT count(*) FROM steps"), 0);
    for (int i = 0; i < 20; ++i) commit_4_mib();
    EXPECT_GT(store.sizes().wal_bytes, static_cast<std::uintmax_t>(StoreOptions().wal_bytes));
    EXPECT_EQ(reader.integer("SELECT count(*) FROM steps"), 0) << "it sees what it saw at first";
  }
  for (int i = 0; i < 3; ++i) commit_4_mib();
  EXPECT_LE(store.sizes().wal_bytes, static_cast<std::uintmax_t>(StoreOptions().wal_bytes));
  EXPECT_GT(store.sizes().database_bytes, 1'000'000U);
  EXPECT_GT(store.sizes().free_bytes, 0U);
}

}  // namespace
}  // namespace laggard::store
