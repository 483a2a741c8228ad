// What is kept too long, what makes room, and how a deleted run goes.
#include <gtest/gtest.h>

#include "daemon/store/reader.h"
#include "daemon/store/store.h"
#include "tests/unit/store/sample.h"

namespace laggard::store {
namespace {

using test::kAttempt;
constexpr core::UnixMs kDay = 86'400'000;
constexpr core::UnixMs kStart = 1'000 * kDay;

class RetentionTest : public ::testing::Test {
 protected:
  // Step n was received n minutes after the start.
  void store_steps(Store& store, Step first, Step last) {
    core::Writes writes = sample_.facts();
    writes.attempts[0].last_received = kStart + last * 60'000;
    for (Step step = first; step <= last; ++step) {
      core::StepRow& row = sample_.add_step(step, {0, 1, 2, 3}, &writes);
      auto view = std::make_shared<core::StepView>(*row.view);
      view->first_received = kStart + step * 60'000;
      view->state = core::StepState::complete;
      row.view = view;
    }
    store.commit(writes);
  }
  // Another run, whose last record came then: ages run to the newest record.
  void other_run(Store& store, core::UnixMs last_received) {
    core::Writes writes;
    writes.runs.push_back({.id = 2, .name = "other", .created = kStart});
    writes.attempts.push_back(
        {.id = kAttempt + 1, .run = 2, .first_received = kStart, .last_received = last_received});
    store.commit(writes);
  }
  // As the engine does: the attempt's row says what has gone.
  static void expire(Store& store, const core::Expiry& expiry, core::Writes& writes) {
    writes.expired.push_back(expiry);
    for (core::AttemptRow row : store.restore().attempts) {
      if (row.id != expiry.attempt) continue;
      row.records_from = std::max(row.records_from, expiry.records_from);
      row.summaries_from = std::max(row.summaries_from, expiry.summaries_from);
      writes.attempts.push_back(row);
    }
  }
  // Does what is said until nothing is left to do; how many slices that took.
  int thin(Store& store, core::UnixMs now) {
    for (int slices = 0;; ++slices) {
      const Upkeep upkeep = store.upkeep(now);
      core::Writes writes;
      if (upkeep.expiry.has_value()) expire(store, *upkeep.expiry, writes);
      if (!upkeep.runs.empty()) writes.deleted.runs.push_back(upkeep.runs.front());
      if (writes.empty() && !upkeep.more) return slices;
      store.commit(writes);
    }
  }
  std::int64_t count(const Store& store, const std::string& sql) {
    return Database(store.database_path().string(), Database::Mode::read_only).integer(sql);
  }

  test::TempDir dir_;
  test::Sample sample_;
};

TEST_F(RetentionTest, WithoutLimitsNothingGoes) {
  Store store(dir_.path());
  store_steps(store, 1, 400);
  EXPECT_EQ(thin(store, kStart + 10'000 * kDay), 0);
}

TEST_F(RetentionTest, OldStepsLoseTheirRecordsAndKeepTheirSummaries) {
  Store store(dir_.path(), {.retention = {.records_ms = 60 * 60'000}});
  store_steps(store, 1, 600);
  thin(store, kStart + 300 * 60'000);  // steps before 240 came more than an hour ago
  EXPECT_EQ(count(store, "SELECT min(step) FROM blocks"), 240);
  EXPECT_EQ(count(store, "SELECT count(*) FROM steps"), 600);
  EXPECT_EQ(count(store, "SELECT count(DISTINCT step) FROM step_stages"), 600);
}

TEST_F(RetentionTest, TheNewestStepsOfAnAttemptStayWholeWhileItMayGoOn) {
  Store store(dir_.path(), {.retention = {.records_ms = 1}});
  store_steps(store, 1, 600);
  thin(store, kStart + 601 * 60'000);
  EXPECT_EQ(count(store, "SELECT min(step) FROM blocks"), 600 - Retention::kNewestKept + 1);
}

TEST_F(RetentionTest, OfOneThatIsOverFewStepsKeepTheirRecords) {
  Store store(dir_.path(), {.retention = {.records_ms = 1}});
  store_steps(store, 1, 600);
  other_run(store, kStart + 3 * kDay);
  thin(store, kStart + 3 * kDay);
  EXPECT_EQ(count(store, "SELECT min(step) FROM blocks"), 600 - Retention::kNewestKeptWhenOver + 1);
  EXPECT_EQ(count(store, "SELECT count(*) FROM steps"), 600);
}

TEST_F(RetentionTest, AnAttemptRemembersWhatItHasLost) {
  Store store(dir_.path());
  core::Writes writes = sample_.facts();
  writes.attempts[0].records_from = 11;
  writes.attempts[0].summaries_from = -3;
  store.commit(writes);
  const core::Restored restored = store.restore();
  EXPECT_EQ(restored.attempts.at(0).records_from, 11);
  EXPECT_EQ(restored.attempts.at(0).summaries_from, -3);
}

TEST_F(RetentionTest, SummariesGoLaterAndSayWhichStatesTheyHad) {
  Store store(dir_.path(), {.retention = {.summaries_ms = 60 * 60'000}});
  store_steps(store, 1, 400);
  const Upkeep first = store.upkeep(kStart + 200 * 60'000);
  ASSERT_TRUE(first.expiry.has_value());
  EXPECT_EQ(first.expiry->summaries_from, 140);
  EXPECT_EQ(first.expiry->records_from, 140) << "a step without a summary has no records either";
  EXPECT_EQ(first.expiry->steps.at(core::StepState::complete), 139U);
  core::Writes writes;
  writes.expired.push_back(*first.expiry);
  store.commit(writes);
  EXPECT_EQ(count(store, "SELECT min(step) FROM steps"), 140);
  EXPECT_EQ(count(store, "SELECT min(step) FROM step_stages"), 140);
  EXPECT_EQ(count(store, "SELECT min(step) FROM blocks"), 140);
}

TEST_F(RetentionTest, AnOpenStepEndsWhatMayGo) {
  Store store(dir_.path(), {.retention = {.records_ms = 1}});
  store_steps(store, 1, 600);
  Database(store.database_path().string(), Database::Mode::read_write)
      .execute("UPDATE steps SET state = 'open' WHERE step = 5");
  EXPECT_EQ(store.upkeep(kStart + 601 * 60'000).expiry->records_from, 5);
}

TEST_F(RetentionTest, AFullDatabaseLosesItsOldestRecordsThenSummariesUntilItFits) {
  constexpr std::uint64_t kLimit = 700'000;
  Store store(dir_.path(), {.retention = {.max_bytes = kLimit}});
  store_steps(store, 1, 1'500);
  ASSERT_GT(count(store,
                  "SELECT (SELECT page_count FROM pragma_page_count) * "
                  "(SELECT page_size FROM pragma_page_size)"),
            static_cast<std::int64_t>(kLimit));
  const int slices = thin(store, kStart + 1'501 * 60'000);
  EXPECT_GT(slices, 2) << "a little at a time";
  const std::int64_t used =
      count(store,
            "SELECT ((SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM "
            "pragma_freelist_count)) * (SELECT page_size FROM pragma_page_size)");
  EXPECT_LE(used, static_cast<std::int64_t>(kLimit));
  EXPECT_EQ(count(store, "SELECT max(step) FROM steps"), 1'500);
  EXPECT_EQ(count(store, "SELECT count(*) FROM blocks WHERE step > 1500 - 256"), 256);
  EXPECT_GE(count(store, "SELECT min(step) FROM blocks"), count(store, "SELECT min(step) FROM steps"));
}

TEST_F(RetentionTest, ARunThatNobodyFedForLongGoesWithAllItsRows) {
  Store store(dir_.path(), {.retention = {.summaries_ms = 10 * kDay}});
  store_steps(store, 1, 600);
  EXPECT_TRUE(store.upkeep(kStart + 12 * kDay).runs.empty())
      << "nobody feeds anything: time alone takes nothing";
  other_run(store, kStart + 12 * kDay);
  EXPECT_TRUE(store.upkeep(kStart + 9 * kDay).runs.empty());
  thin(store, kStart + 12 * kDay);
  for (const char* table :
       {"ranks", "rank_settings", "stages", "sources", "steps", "step_stages", "blocks", "deletions"})
    EXPECT_EQ(count(store, std::string("SELECT count(*) FROM ") + table), 0) << table;
  EXPECT_EQ(count(store, "SELECT count(*) FROM runs"), 1) << "the other one";
}

TEST_F(RetentionTest, ADeletedRunGoesBitByBitAndIsGoneAtOnceForWhoeverAsks) {
  Store store(dir_.path());
  store_steps(store, 1, 600);
  core::Writes writes;
  writes.deleted.runs.push_back(1);
  store.commit(writes);
  EXPECT_TRUE(Reader(store.database_path(), std::chrono::seconds(30)).attempts("job").empty());
  const core::Restored restored = store.restore();
  EXPECT_EQ(restored.last_deleted_attempt, kAttempt) << "its number must not be given again yet";
  EXPECT_TRUE(restored.stages.empty()) << "a collector that starts now knows no such attempt";
  EXPECT_TRUE(store.upkeep(kStart).more);
  EXPECT_EQ(count(store, "SELECT count(*) FROM steps"), 600 - 256);
  EXPECT_GE(thin(store, kStart), 2);
  EXPECT_EQ(count(store, "SELECT count(*) FROM steps"), 0);
  EXPECT_EQ(count(store, "SELECT count(*) FROM deletions"), 0);
  EXPECT_EQ(store.restore().last_deleted_attempt, 0);
}

TEST_F(RetentionTest, ARunThatNeverSentARecordGoesToo) {
  Store store(dir_.path(), {.retention = {.summaries_ms = 10 * kDay}});
  core::Writes writes;
  writes.runs.push_back({.id = 3, .name = "died young", .created = kStart});
  store.commit(writes);
  other_run(store, kStart + 12 * kDay);
  EXPECT_EQ(store.upkeep(kStart + 12 * kDay).runs, std::vector<core::RunId>{3});
}

TEST_F(RetentionTest, WhatCannotMakeItSmallEnoughIsNotSacrificed) {
  Store store(dir_.path(), {.retention = {.max_bytes = 1}});
  store_steps(store, 1, 600);
  other_run(store, kStart + 3 * kDay);
  thin(store, kStart + 3 * kDay);
  EXPECT_TRUE(store.upkeep(kStart + 3 * kDay + 2'000).stuck);
  EXPECT_EQ(count(store, "SELECT count(*) FROM steps"), 600);
  EXPECT_EQ(count(store, "SELECT count(*) FROM runs"), 2);
}

TEST_F(RetentionTest, WhatWasNotDoneIsSaidAgain) {
  Store store(dir_.path(), {.retention = {.records_ms = 1}});
  store_steps(store, 1, 900);
  const core::UnixMs now = kStart + 901 * 60'000;
  const Upkeep first = store.upkeep(now);
  ASSERT_TRUE(first.expiry.has_value());
  EXPECT_EQ(store.upkeep(now).expiry->records_from, first.expiry->records_from);
}

}  // namespace
}  // namespace laggard::store
