// What the collector lets go, and what it makes of records that come after that.
#include "daemon/base/limits.h"
#include "tests/unit/core/collector_fixture.h"

namespace laggard::core {
namespace {

class CollectorRetentionTest : public CollectorTest {
 protected:
  // Steps 1 to 40 of two ranks, complete and durable.
  CollectorRetentionTest() {
    for (Rank rank = 0; rank < 2; ++rank) {
      sources.emplace_back(*collector, "job", rank, "source" + std::to_string(rank));
      sources.back().hello(now);
      sources.back().config(R"({"world_size":2})", 2, now);
    }
    for (Step step = 1; step <= 40; ++step) {
      for (test::TestSource& source : sources) source.send(record_of(source, step), now);
      commit();
    }
  }
  test::TestRecord record_of(const test::TestSource& source, Step step, double wall = 100) {
    return record(&source == &sources[0] ? 0 : 1, step, wall);
  }
  // A later agent that has begun with the rank's file again.
  test::TestSource read_again(Rank rank) {
    sources[rank].bye(false, now);
    test::TestSource again(*collector, "job", rank, "later" + std::to_string(rank));
    again.hello(now);
    again.config(R"({"world_size":2})", 2, now);
    return again;
  }
  bool expire(std::optional<Step> records_from, std::optional<Step> summaries_from = std::nullopt) {
    const Expiry expiry{.attempt = view()->id,
                        .records_from = records_from,
                        .summaries_from = summaries_from,
                        .steps = {{StepState::complete, summaries_from.value_or(1) - 1}}};
    return collector->expire(expiry);
  }

  std::vector<test::TestSource> sources;
};

TEST_F(CollectorRetentionTest, WhatExpiresIsGivenToTheStoreAndShown) {
  ASSERT_TRUE(expire(11, 6));
  EXPECT_EQ(view()->records_from, 11);
  EXPECT_EQ(view()->summaries_from, 6);
  EXPECT_EQ(view()->steps_by_state.at(StepState::complete), 35U);
  commit();
  EXPECT_EQ(archive.blocks.begin()->first.second, 11);
  EXPECT_EQ(archive.views.begin()->first.second, 6);
  EXPECT_FALSE(expire(11, 6)) << "nothing new";
  EXPECT_FALSE(expire(7)) << "what has gone does not come back";
  restart();
  EXPECT_EQ(view()->records_from, 11);
  EXPECT_EQ(view()->summaries_from, 6);
}

TEST_F(CollectorRetentionTest, ACommitThatFailsGivesItAgain) {
  ASSERT_TRUE(expire(11));
  EXPECT_EQ(collector->collect(now, 0).expired.size(), 1U);
  collector->not_committed();
  EXPECT_EQ(collector->collect(now, 0).expired.size(), 1U);
  collector->committed();
  EXPECT_EQ(collector->collect(now, 0).expired.size(), 0U);
}

TEST_F(CollectorRetentionTest, AStepThatIsStillToBeWrittenKeepsAllFromGoing) {
  sources[0].send(record_of(sources[0], 41), now);
  EXPECT_FALSE(expire(42));
  EXPECT_TRUE(expire(41)) << "an open step ends what may go, it is not in it";
}

// A summary of two ranks must not become one of the rank whose file was read again.
TEST_F(CollectorRetentionTest, AFileReadAgainIsRejectedBelowAndDuplicateFromThereOn) {
  ASSERT_TRUE(expire(11));
  commit();
  test::TestSource again = read_again(1);
  for (Step step = 1; step <= 40; ++step) again.send(record(1, step, 100), now);
  commit();
  const auto attempt = view();
  EXPECT_EQ(attempt->attempt, 1U);
  EXPECT_EQ(attempt->counts.rejected, 10U);
  EXPECT_EQ(attempt->counts.duplicate, 1U + 30U);
  EXPECT_EQ(archive.views.at({attempt->id, 5}).breakdown.present, 2U);
  ASSERT_EQ(attempt->warnings.size(), 1U);
  EXPECT_NE(attempt->warnings[0].find("kept no longer"), std::string::npos);
}

TEST_F(CollectorRetentionTest, AJobThatGoesOnFromAnExpiredStepBeginsTheNextAttempt) {
  ASSERT_TRUE(expire(11));
  commit();
  sources[0].send(record_of(sources[0], 5, 101), now);
  commit();
  EXPECT_EQ(view()->attempt, 2U);
  EXPECT_EQ(view()->counts.stored, 1U);
  EXPECT_EQ(view(1)->counts.rejected, 0U);
}

// Its file has steps 1 to 40, then 21 to 60 without a config line: attempt 2. Read again from its start when
// all of that has expired, each part must be found in its attempt.
TEST_F(CollectorRetentionTest, AFileReadAgainFindsTheAttemptsThatHaveExpired) {
  for (Step step = 21; step <= 60; ++step)
    for (test::TestSource& source : sources) source.send(record_of(source, step, 101), now);
  commit();
  ASSERT_EQ(view()->attempt, 2U);
  for (const std::uint32_t number : {1U, 2U})
    ASSERT_TRUE(collector->expire({.attempt = view(number)->id, .records_from = number == 1 ? 40 : 60}));
  commit();
  test::TestSource again = read_again(1);
  for (Step step = 1; step <= 40; ++step) again.send(record(1, step, 100), now);
  for (Step step = 21; step <= 60; ++step) again.send(record(1, step, 101), now);
  commit();
  EXPECT_EQ(view(1)->counts.rejected, 39U);
  EXPECT_EQ(view(1)->newest_step, 40);
  EXPECT_EQ(view(2)->counts.rejected, 39U);
  EXPECT_EQ(view(2)->counts.duplicate, 1U);
  EXPECT_EQ(view()->attempt, 2U);
}

TEST_F(CollectorRetentionTest, StartsThatSentNothingAreForgottenBeforeThoseThatDid) {
  for (int start = 0; start < 100; ++start) {
    test::TestSource idle(*collector, "job", 0, "idle" + std::to_string(start), "/other/");
    idle.hello(now);
    idle.bye(false, now);
    commit();
  }
  test::TestSource again = read_again(0);
  for (Step step = 1; step <= 40; ++step) again.send(record(0, step, 100), now);
  EXPECT_EQ(view()->attempt, 1U) << "the first source is known, and so is its file";
  EXPECT_EQ(view()->counts.duplicate, 41U);
}

TEST_F(CollectorRetentionTest, TheSameHoldsForASourceKnownFromBeforeARestart) {
  ASSERT_TRUE(expire(11));
  commit();
  restart();
  test::TestSource same(*collector, "job", 0, "source0");
  same.next_seq = same.hello(now, true).committed_seq + 1;
  same.send(record(0, 5, 101), now);
  EXPECT_EQ(view()->attempt, 2U);
}

TEST_F(CollectorRetentionTest, ARunThatIsStillFedIsNotDeleted) {
  EXPECT_EQ(collector->delete_run("job"), Collector::Deleted::still_fed);
  EXPECT_EQ(collector->delete_run("other"), Collector::Deleted::no_such_run);
  for (test::TestSource& source : sources) source.bye(true, now);
  EXPECT_EQ(collector->delete_run("job"), Collector::Deleted::deleted);
  EXPECT_TRUE(collector->snapshot(now, {})->runs.empty());
  EXPECT_FALSE(collector->knows(sources[0].key()));
  const Writes writes = collector->collect(now, 0);
  EXPECT_EQ(writes.deleted.runs, std::vector<RunId>{1});
  EXPECT_TRUE(writes.sources.empty());
}

TEST_F(CollectorRetentionTest, ADeletionIsGivenAgainUntilItIsDurable) {
  for (test::TestSource& source : sources) source.bye(true, now);
  collector->delete_run("job");
  EXPECT_EQ(collector->collect(now, 0).deleted.runs.size(), 1U);
  collector->not_committed();
  EXPECT_EQ(collector->collect(now, 0).deleted.runs.size(), 1U);
  collector->committed();
  EXPECT_TRUE(collector->collect(now, 0).empty());
}

TEST_F(CollectorRetentionTest, TheNameIsFreeForARunOfItsOwn) {
  for (test::TestSource& source : sources) source.bye(true, now);
  collector->delete_run("job");
  test::TestSource fresh(*collector, "job", 0, "fresh");
  fresh.hello(now);
  fresh.send(record(0, 1, 55), now);
  EXPECT_EQ(view()->counts.stored, 1U);
  EXPECT_EQ(view()->counts.duplicate, 0U);
  EXPECT_NE(view()->id, 1);
}

TEST_F(CollectorRetentionTest, OfManySourcesOfARankTheOldestAreForgottenAndStayCounted) {
  const std::uint64_t stored = view()->counts.stored;
  for (int start = 0; start < 100; ++start) {
    test::TestSource again(*collector, "job", 0, "start" + std::to_string(start));
    again.hello(now, true);
    again.send(record(0, 41 + start, 100), now);
    again.bye(false, now);
    const Writes writes = collector->collect(now, 0);
    archive.commit(writes);
    for (const SourceKey key : writes.deleted.sources) archive.sources.erase(key);
    collector->committed();
  }
  EXPECT_EQ(archive.sources.size(), limits::kMaxSourcesPerRank + 1);
  EXPECT_EQ(view()->counts.stored, stored + 100);
  restart();
  EXPECT_EQ(view()->counts.stored, stored + 100);
  EXPECT_EQ(view()->attempt, 1U);
}

TEST_F(CollectorRetentionTest, WhatAForgottenSourceLostIsShownAsThatOfTheOneThatStays) {
  const auto lost = [&] {
    std::uint64_t sum = 0;
    for (const Losses& losses : collector->snapshot(now, {})->runs.at(0)->losses) sum += losses.dropped;
    return sum;
  };
  for (std::uint64_t start = 0; start < 2 * limits::kMaxSourcesPerRank; ++start) {
    test::TestSource again(*collector, "job", 0, "start" + std::to_string(start));
    again.hello(now, true);
    EXPECT_EQ(lost(), start);  // also while the one that is forgotten is only being deleted
    again.next_seq = 2;
    again.send(record(0, 41 + static_cast<Step>(start), 100), now, 1);
    again.bye(false, now);
    const Writes writes = collector->collect(now, 0);
    archive.commit(writes);
    for (const SourceKey key : writes.deleted.sources) archive.sources.erase(key);
    collector->committed();
  }
  EXPECT_EQ(lost(), 2 * limits::kMaxSourcesPerRank);
  restart();
  EXPECT_EQ(lost(), 2 * limits::kMaxSourcesPerRank);
}

}  // namespace
}  // namespace laggard::core
