// What is stored when, what may be acknowledged then, and what a restart finds.
#include "tests/unit/core/collector_fixture.h"

namespace laggard::core {
namespace {

using test::TestSource;

class CollectorCommitTest : public CollectorTest {};

TEST_F(CollectorCommitTest, AnAckCoversOnlyWhatIsStored) {
  auto sources = four_ranks();
  EXPECT_EQ(acked(commit(1000), sources[0]), 1U);  // the configs
  sources[0].send(record(0, 1, 10), now);
  EXPECT_TRUE(commit(1000).empty());  // the step still waits for its ranks
  now += 1000;
  EXPECT_EQ(acked(commit(1000), sources[0]), 2U);
  for (const Rank rank : {1U, 2U, 3U}) sources[rank].send(record(rank, 1, 10), now);
  EXPECT_EQ(acked(commit(1000), sources[3]), 2U);
  EXPECT_EQ((archive.views.at({1, 1}).breakdown.present), 4U);
}

TEST_F(CollectorCommitTest, ACommitThatFailsChangesNothing) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  (void)collector->collect(now, 0);
  collector->not_committed();
  const Writes again = collector->collect(now, 0);
  EXPECT_EQ(again.steps.size(), 1U);
  EXPECT_EQ(again.steps[0].blocks.size(), 1U);
  EXPECT_EQ(again.layouts.size(), 1U);
  archive.commit(again);
  EXPECT_EQ(acked(collector->committed(), sources[0]), 2U);
}

TEST_F(CollectorCommitTest, WhatComesDuringACommitIsOfTheNextOne) {
  auto sources = four_ranks();
  for (const Rank rank : {0U, 1U}) sources[rank].send(record(rank, 1, 10), now);
  const Writes under_way = collector->collect(now, 0);
  for (const Rank rank : {0U, 2U, 3U}) sources[rank].send(record(rank, rank == 0 ? 2 : 1, 10), now);
  ASSERT_EQ(under_way.steps.size(), 1U);
  EXPECT_EQ(under_way.steps[0].view->breakdown.present, 2U);
  EXPECT_EQ(under_way.steps[0].blocks[0].second->size(), 2U);
  archive.commit(under_way);
  std::vector<AckInfo> acks = collector->committed();
  EXPECT_EQ(acked(acks, sources[0]), 2U);  // the config and step 1, not step 2
  EXPECT_EQ(acked(acks, sources[2]), 1U);
  acks = commit();
  EXPECT_EQ(acked(acks, sources[0]), 3U);
  EXPECT_EQ(acked(acks, sources[2]), 2U);
  EXPECT_EQ((archive.views.at({1, 1}).breakdown.present), 4U);
}

TEST_F(CollectorCommitTest, AFailedCommitThatRecordsCameDuringIsGivenAgainWithThem) {
  auto sources = four_ranks();
  for (const Rank rank : {0U, 1U}) sources[rank].send(record(rank, 1, 10), now);
  (void)collector->collect(now, 0);
  for (const Rank rank : {2U, 3U}) sources[rank].send(record(rank, 1, 10), now);
  collector->not_committed();
  const std::vector<AckInfo> acks = commit(1000);
  for (const Rank rank : {0U, 1U, 2U, 3U}) EXPECT_EQ(acked(acks, sources[rank]), 2U) << rank;
  EXPECT_EQ((archive.views.at({1, 1}).breakdown.present), 4U);
}

TEST_F(CollectorCommitTest, ADuplicateIsNotAcknowledgedBeforeWhatItRepeatsIsDurable) {
  auto sources = four_ranks();
  EXPECT_EQ(acked(commit(1000), sources[0]), 1U);
  sources[0].send(record(0, 1, 10), now);  // waits for the other ranks, not yet stored
  sources[0].bye(false, now);
  TestSource again(*collector, "job", 0, "later agent");
  again.hello(now);
  again.config(kSettings4, 4, now);
  again.send(record(0, 1, 10), now);
  EXPECT_EQ(acked(commit(1000), again), 1U);  // the config alone
  now += 1000;
  EXPECT_EQ(acked(commit(1000), again), 2U);
}

TEST_F(CollectorCommitTest, AFailedCommitGivesAgainOnlyWhatItHad) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  commit();
  sources[2].send(record(2, 2, 10), now);
  (void)collector->collect(now, 0);
  collector->not_committed();
  const Writes again = collector->collect(now, 0);
  EXPECT_TRUE(again.runs.empty());
  EXPECT_TRUE(again.stages.empty());
  ASSERT_EQ(again.ranks.size(), 1U);
  EXPECT_EQ(again.ranks[0].rank, 2U);
  EXPECT_TRUE(again.ranks[0].settings.empty());  // stored already
}

TEST_F(CollectorCommitTest, ARankRowSaysNoMoreThanItsStoredRecords) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  sources[0].send(record(0, 2, 10), now);
  commit(1000);
  EXPECT_EQ((archive.ranks.at({1, 0}).last_step), 1);
  EXPECT_EQ((archive.ranks.at({1, 0}).records), 1U);
  restart();
  TestSource again(*collector, "job", 0, "source0");
  again.next_seq = again.hello(now).committed_seq + 1;
  again.send(record(0, 2, 10), now);
  EXPECT_EQ(view()->counts.late, 0U);
  EXPECT_EQ(view()->counts.stored, 4U + 4U + 1U);  // configs, step 1, step 2
}

TEST_F(CollectorCommitTest, AnAttemptThatNobodyFeedsKeepsNoStepsButItsViews) {
  auto sources = four_ranks();
  for (Step step = 1; step <= 3; ++step)
    for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, step, 10), now);
  for (auto& source : sources) source.bye(true, now);
  commit();
  EXPECT_EQ(view()->newest->breakdown.step, 3);
  restart();
  EXPECT_EQ(view()->newest->breakdown.step, 3);
  EXPECT_EQ(view()->settled->breakdown.present, 4U);
  EXPECT_EQ(history().size(), 3U);
  EXPECT_EQ(view()->median_wall_ms, 10);
}

TEST_F(CollectorCommitTest, AByeCountsAlsoFromASourceThatWasGivenUp) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  now += 60'000;
  collector->tick(now);
  for (auto& source : sources) source.bye(true, now);
  for (const RankView& rank : view()->ranks) EXPECT_TRUE(rank.finished) << rank.rank;
}

TEST_F(CollectorCommitTest, NobodyIsGivenUpForTheTimeNobodyListened) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  now += 60'000;
  collector->tick(now, now - 1000);
  EXPECT_TRUE(view()->ranks[0].live);
}

TEST_F(CollectorCommitTest, ARestartInTheMiddleGoesOnWithOpenSteps) {
  auto sources = four_ranks();
  for (Step step = 1; step <= 2; ++step)
    for (Rank rank = 0; rank < 4; ++rank)
      if (step == 1 || rank < 2) sources[rank].send(record(rank, step, 10), now);
  commit();
  restart();
  EXPECT_EQ(history().at(1).state, StepState::complete);
  EXPECT_EQ(view()->world_size, 4U);
  for (Rank rank = 2; rank < 4; ++rank) {
    TestSource source(*collector, "job", rank, "source" + std::to_string(rank));
    EXPECT_EQ(source.hello(now).committed_seq, 2U);
    source.next_seq = 3;
    source.send(record(rank, 2, 11), now);
  }
  EXPECT_EQ(history().at(2).state, StepState::complete);
  EXPECT_EQ(view()->steps_by_state.at(StepState::complete), 2U);
}

// What was taken but not stored when the collector dies is sent again: it must be counted, and placed, once.
TEST_F(CollectorCommitTest, CountsAndOffsetNeverRunAheadOfWhatIsDurable) {
  TestSource source(*collector, "job", 0, "a"), other(*collector, "job", 1, "b");
  other.hello(now);
  other.config(R"({"world_size":2})", 2, now);
  source.hello(now);
  source.config(R"({"world_size":2})", 2, now);
  for (Step step = 1; step <= 3; ++step) source.send(record(0, step, 10), now);  // open: rank 1 has none
  source.send(record(0, 2, 20), now);                                            // attempt 2
  commit(1000);
  restart();
  EXPECT_EQ(view(1)->counts.stored + view(2)->counts.stored, 2U);  // the configs
  TestSource again(*collector, "job", 0, "a");
  EXPECT_EQ(again.hello(now).committed_seq, 1U);
  again.next_seq = 2;
  for (Step step = 1; step <= 3; ++step) again.send(record(0, step, 10), now);
  again.send(record(0, 2, 20), now);
  EXPECT_EQ(view(1)->ranks.at(0).last_step, 3);
  EXPECT_EQ(view(2)->ranks.at(0).last_step, 2);
  now += 1000;
  commit(1000);
  std::uint64_t stored = 0;
  for (const auto& [key, row] : archive.sources) stored += row.counts.stored;
  EXPECT_EQ(stored, 6U);  // two configs, four records
}

// A23: never "running" for ever; a late record opens the run again; closable by hand.

}  // namespace
}  // namespace laggard::core
