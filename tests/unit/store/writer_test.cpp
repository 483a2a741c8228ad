#include "daemon/store/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "daemon/store/block_reader.h"
#include "daemon/store/schema.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// On a database of the test's own, whose size it can limit.
class WriterTest : public ::testing::Test {
 protected:
  WriterTest() : database_(make(dir_.path() / "test.db"), Database::Mode::read_write) {
    migrate(database_, migrations());
  }
  static std::string make(const std::filesystem::path& file) {
    std::ofstream(file).flush();
    return file.string();
  }
  std::int64_t count(const std::string& table) { return database_.integer("SELECT count(*) FROM " + table); }

  test::TempDir dir_;
  test::Sample sample_;
  Database database_;
};

TEST_F(WriterTest, AFullDiskLeavesTheOldStateAndTheSameWritesSucceedLater) {
  Writer writer(database_);
  core::Writes first = sample_.facts();
  sample_.add_step(1, {0, 1}, &first);
  first.sources.push_back({.key = 5, .run = 1, .id = "s", .committed_seq = 10});
  writer.commit(first);

  core::Writes second;
  for (Step step = 1; step <= 500; ++step) sample_.add_step(step, {0, 1, 2, 3}, &second);
  second.sources.push_back({.key = 5, .run = 1, .id = "s", .committed_seq = 20});
  const std::int64_t pages = database_.integer("PRAGMA page_count") + 10;
  database_.execute("PRAGMA max_page_count = " + std::to_string(pages));
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT([&] { writer.commit(second); }, ThrowsMessage<Error>(HasSubstr("database or disk is full")));
    EXPECT_FALSE(database_.in_transaction());
    EXPECT_EQ(count("steps"), 1);
    EXPECT_EQ(database_.integer("SELECT ranks FROM blocks"), 2) << "step 1 as it was";
    EXPECT_EQ(database_.integer("SELECT committed_seq FROM sources"), 10);
  }

  database_.execute("PRAGMA max_page_count = 1000000");
  writer.commit(second);
  EXPECT_EQ(count("steps"), 500);
  EXPECT_EQ(count("blocks"), 500);
  EXPECT_EQ(database_.integer("SELECT ranks FROM blocks WHERE step = 1"), 4);
  EXPECT_EQ(database_.integer("SELECT committed_seq FROM sources"), 20);
}

TEST_F(WriterTest, ARefusedRowUndoesTheWholeGroup) {
  Writer writer(database_);
  writer.commit(sample_.facts());
  core::Writes writes;
  sample_.add_step(1, {0}, &writes);
  writes.runs.push_back({.id = 2, .name = "other"});
  writes.runs.push_back({.id = 3, .name = "job"});  // the name of run 1
  EXPECT_THROW(writer.commit(writes), Error);
  EXPECT_EQ(count("runs"), 1);
  EXPECT_EQ(count("steps"), 0);
}

TEST_F(WriterTest, AStepWrittenAgainReplacesItsRowsAndOnlyTheGivenBlocks) {
  Writer writer(database_);
  writer.commit(sample_.facts());
  core::Writes first;
  sample_.add_step(9, {0, 1, 1'030}, &first);
  writer.commit(first);
  ASSERT_EQ(count("blocks"), 2);

  core::Writes again;
  core::StepRow& row = sample_.add_step(9, {0, 1, 2, 1'030}, &again);
  auto view = test::Sample::view(9);
  view->state = core::StepState::late_completed;
  view->breakdown.stages[0].spread.max = 77;
  row.view = view;
  row.blocks.pop_back();  // the second block did not change
  writer.commit(again);

  EXPECT_EQ(count("steps"), 1);
  EXPECT_EQ(count("step_stages"), 2);
  EXPECT_EQ(count("steps WHERE state = 'late_completed'"), 1);
  EXPECT_EQ(count("step_stages WHERE stream_max_ms = 77"), 1);
  EXPECT_EQ(database_.integer("SELECT ranks FROM blocks WHERE block = 0"), 3);
  EXPECT_EQ(database_.integer("SELECT ranks FROM blocks WHERE block = 1"), 1);
}

TEST_F(WriterTest, AbsentAndUnknownAreNullAndNeverZero) {
  Writer writer(database_);
  core::Writes writes = sample_.facts();
  writes.attempts[0].world_size = 0;
  writes.ranks.push_back({.attempt = test::kAttempt, .rank = 2});
  writes.sources.push_back({.key = 1, .run = 1, .id = "s"});
  auto view = std::make_shared<core::StepView>();
  view->breakdown.step = 4;
  view->breakdown.stages = {{.stage = test::kForward, .clock = core::Clock::host}};
  writes.steps.push_back({.attempt = test::kAttempt, .view = view});
  writer.commit(writes);

  EXPECT_EQ(count("attempts WHERE world_size IS NULL"), 1);
  EXPECT_EQ(count("ranks WHERE host IS NULL AND last_step IS NULL AND last_received_unix_ms IS NULL AND "
                  "last_wall_ms IS NULL AND last_wall_state = 'absent' AND records = 0"),
            1);
  EXPECT_EQ(count("rank_settings"), 0);
  EXPECT_EQ(count("sources WHERE host IS NULL AND origin IS NULL AND attempt IS NULL AND lost IS NULL"), 1);
  EXPECT_EQ(
      count(
          "steps WHERE missing IS NULL AND tags IS NULL AND wall_present = 0 AND wall_min_ms IS NULL AND "
          "wall_median_ms IS NULL AND wall_mean_ms IS NULL AND wall_max_ms IS NULL AND wall_min_rank IS NULL "
          "AND slowest_rank IS NULL AND own_max_ms IS NULL AND own_max_rank IS NULL AND own_min_rank IS NULL "
          "AND culprit_rank IS NULL AND culprit_own_excess_ms IS NULL AND culprit_stage_id IS NULL AND "
          "culprit_stage_excess_ms IS NULL AND settled_unix_ms IS NULL"),
      1);
  EXPECT_EQ(
      count("step_stages WHERE host_present = 0 AND host_max_ms IS NULL AND host_max_rank IS NULL AND "
            "host_slowest_state = 'absent' AND stream_present IS NULL AND stream_slowest_state IS NULL AND "
            "stream_invalid IS NULL AND stream_nulls IS NULL"),
      1);
}

TEST_F(WriterTest, EveryReferenceHolds) {
  Writer writer(database_);
  core::Writes writes = sample_.facts();
  sample_.add_step(1, {0, 1, 2, 3}, &writes);
  writes.ranks.push_back({.attempt = test::kAttempt, .rank = 2, .settings = "{}"});
  writes.sources.push_back({.key = 1, .run = 1, .id = "s"});
  writer.commit(writes);
  EXPECT_EQ(database_.integer("SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

}  // namespace
}  // namespace laggard::store
