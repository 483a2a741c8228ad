#include <algorithm>

#include "daemon/base/limits.h"
#include "tests/unit/core/collector_fixture.h"

namespace laggard::core {
namespace {

using test::TestSource;
using Taken = Collector::Taken;

TEST_F(CollectorTest, AStepIsCompleteWhenEveryExpectedRankIsIn) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 3; ++rank) sources[rank].send(record(rank, 1, 10 + rank), now);
  EXPECT_TRUE(view()->history.empty());
  EXPECT_EQ(view()->newest->state, StepState::open);
  EXPECT_EQ(view()->newest->missing, std::vector<Rank>{3});
  sources[3].send(record(3, 1, 5), now);
  EXPECT_EQ(history().at(1).state, StepState::complete);
  EXPECT_EQ(history().at(1).slowest, 2U);
}

// A03: a rank that dies is named, and nothing waits for it.
TEST_F(CollectorTest, ASilentRankMakesOverdueStepsPartial) {
  auto sources = four_ranks();
  for (Step step = 1; step <= 5; ++step)
    for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, step, 15000), now);
  for (Step step = 6; step <= 10; ++step)
    for (const Rank rank : {0U, 1U, 3U})
      sources[rank].send(record(rank, step, rank == 1 ? 15050 : 15000), now);
  collector->tick(now);
  EXPECT_FALSE(history().contains(6));  // not overdue yet: 3 walls are 45 s
  now += 45'001;
  for (TestSource& source : sources) collector->heartbeat(source.key(), std::nullopt, now);
  collector->tick(now);
  for (Step step = 6; step <= 8; ++step) {
    EXPECT_EQ(history().at(step).state, StepState::partial) << step;
    EXPECT_EQ(history().at(step).slowest, 1U);
  }
  EXPECT_FALSE(history().contains(9));  // no step two later has been seen
  EXPECT_EQ(view()->newest_step, 10);
  const RankView& silent = view()->ranks.at(2);
  EXPECT_TRUE(is_silent(*view(), silent, now));
  EXPECT_EQ(silent.last_step, 5);
  EXPECT_FALSE(is_silent(*view(), view()->ranks.at(1), now));
}

TEST_F(CollectorTest, AStepIsPartialAtOnceWhenTheSourcesOfAllMissingRanksAreGone) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  for (const Rank rank : {0U, 1U, 3U}) sources[rank].send(record(rank, 2, 10), now);
  EXPECT_FALSE(history().contains(2));
  sources[2].bye(false, now);
  EXPECT_EQ(history().at(2).state, StepState::partial);
  EXPECT_EQ(view()->settled->missing, std::vector<Rank>{2});
}

// A08: a late record corrects its own step only.
TEST_F(CollectorTest, ALateRecordMakesAPartialStepWhole) {
  auto sources = four_ranks();
  for (Step step = 1; step <= 3; ++step)
    for (Rank rank = 0; rank < 4; ++rank)
      if (rank != 3 || step != 2) sources[rank].send(record(rank, step, 15000 + rank), now);
  now += 50'000;
  for (Step step = 4; step <= 5; ++step)
    for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, step, 15000 + rank), now);
  collector->tick(now);
  const auto before = history();
  EXPECT_EQ(before.at(2).state, StepState::partial);
  EXPECT_EQ(before.at(2).slowest, 2U);
  sources[3].send(record(3, 2, 99000), now);
  const auto after = history();
  EXPECT_EQ(after.at(2).state, StepState::late_completed);
  EXPECT_EQ(after.at(2).slowest, 3U);
  EXPECT_EQ(after.at(2).wall_max_ms, 99000);
  for (const Step step : {1, 3, 4, 5}) EXPECT_EQ(after.at(step).event, before.at(step).event) << step;
  EXPECT_EQ(view()->counts.late, 1U);
}

TEST_F(CollectorTest, ALateRecordFindsAStepThatHasLeftMemory) {
  auto sources = four_ranks();
  for (const Rank rank : {0U, 1U, 2U}) sources[rank].send(record(rank, 1, 10), now);
  for (Step step = 2; step <= 60; ++step)
    for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, step, 10), now);
  now += 20'000;
  collector->tick(now);
  commit();
  sources[3].send(record(3, 1, 77), now);
  commit();
  EXPECT_EQ((archive.views.at({1, 1}).state), StepState::late_completed);
  EXPECT_EQ((archive.views.at({1, 1}).breakdown.wall.max), 77);
  EXPECT_EQ((archive.views.at({1, 1}).breakdown.present), 4U);
}

// A07: the same record again is counted once, also after it has left memory, also for a new agent.
TEST_F(CollectorTest, TheSameRecordAgainIsADuplicate) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  source.config(R"({"world_size":1})", 1, now);
  for (Step step = 1; step <= 40; ++step) source.send(record(0, step, 10), now);
  commit();
  TestSource again(*collector, "job", 0, "b");
  source.bye(false, now);
  again.hello(now);
  again.config(R"({"world_size":1})", 1, now);
  for (Step step = 1; step <= 41; ++step) again.send(record(0, step, 10), now);
  EXPECT_EQ(view()->counts.duplicate, 41U);  // and the config
  EXPECT_EQ(view()->counts.stored, 42U);
  EXPECT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, std::vector<std::uint32_t>{1});
}

TEST_F(CollectorTest, ABatchSentAgainIsTakenOnce) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  EXPECT_EQ(source.send(record(0, 1, 10), now), Taken::taken);
  source.next_seq = 1;
  EXPECT_EQ(source.send(record(0, 1, 10), now), Taken::taken);  // here, not durable: its ack will come
  commit();
  source.next_seq = 1;
  EXPECT_EQ(source.send(record(0, 1, 10), now), Taken::durable_before);
  source.next_seq = 3;
  EXPECT_EQ(source.send(record(0, 3, 10), now), Taken::gap);
  EXPECT_EQ(view()->counts.stored, 1U);
  EXPECT_EQ(view()->counts.duplicate, 0U);
}

// A micro-step logger must not make an attempt of each line.
TEST_F(CollectorTest, TheNewestStepAgainWithOtherContentIsAConflict) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  for (const double wall : {10.0, 11.0, 12.0}) source.send(record(0, 5, wall), now);
  EXPECT_EQ(view()->counts.conflict, 2U);
  EXPECT_EQ(view()->counts.stored, 1U);
  EXPECT_EQ(view()->ranks.at(0).last_wall_ms, 10);
  // A later agent that reads the same file from its start comes to the same answer.
  source.send(record(0, 6, 13), now);
  TestSource again(*collector, "job", 0, "b");
  again.hello(now);
  for (const double wall : {10.0, 11.0, 12.0}) again.send(record(0, 5, wall), now);
  EXPECT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, std::vector<std::uint32_t>{1});
  EXPECT_EQ(view()->counts.conflict, 4U);
}

// A01 without the config line: a step back to one seen before is the next attempt.
TEST_F(CollectorTest, AStepBackWithOtherContentBeginsTheNextAttempt) {
  const auto feed = [&](TestSource& source, Rank rank) {
    source.config(R"({"world_size":2})", 2, now);
    for (Step step = 1; step <= 6; ++step)
      source.send(record(rank, step, 15000.0 + static_cast<double>(step)), now);
    for (Step step = 4; step <= 8; ++step)
      source.send(record(rank, step, 14000.0 + static_cast<double>(step)), now);
  };
  for (Rank rank = 0; rank < 2; ++rank) {
    TestSource source(*collector, "job", rank, "a" + std::to_string(rank));
    source.hello(now);
    feed(source, rank);
  }
  EXPECT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(history(1).size(), 6U);
  EXPECT_EQ(history(2).size(), 5U);
  EXPECT_EQ(history(1).at(5).wall_max_ms, 15005);
  EXPECT_EQ(history(2).at(5).wall_max_ms, 14005);
  EXPECT_EQ(history(2).at(8).state, StepState::complete);  // the world size goes on
  commit();

  restart();  // and an agent that reads the file again from its start gives the same numbers
  TestSource again(*collector, "job", 0, "later");
  again.hello(now);
  feed(again, 0);
  EXPECT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, (std::vector<std::uint32_t>{1, 2}));
  std::uint64_t duplicates = 0;
  for (const std::uint32_t attempt : {1U, 2U}) duplicates += view(attempt)->counts.duplicate;
  EXPECT_EQ(duplicates, 12U);  // and the config
}

// A02: ranks handed out anew by a restart with another world size, from other files on other hosts.
TEST_F(CollectorTest, AnotherWorldSizeIsAnotherAttempt) {
  auto first = four_ranks();
  for (Step step = 1; step <= 3; ++step)
    for (Rank rank = 0; rank < 4; ++rank) first[rank].send(record(rank, step, 15000 + 10 * rank), now);
  for (TestSource& source : first) source.bye(false, now);
  for (const Rank rank : {1U, 0U}) {
    TestSource source(*collector, "job", rank, "second" + std::to_string(rank), "/log2/rank", "node9");
    source.hello(now);
    source.config(R"({"world_size":2,"seed":7})", 2, now);
    for (Step step = 3; step <= 4; ++step) source.send(record(rank, step, rank == 0 ? 20005 : 20000), now);
  }
  EXPECT_EQ(view(1)->world_size, 4U);
  EXPECT_EQ(view(2)->world_size, 2U);
  EXPECT_EQ(history(1).at(3).slowest, 3U);
  EXPECT_EQ(history(2).at(3).slowest, 0U);
  EXPECT_EQ(history(2).at(4).state, StepState::complete);
}

TEST_F(CollectorTest, TwoLiveSourcesOfOneRankClashAndNothingIsLost) {
  TestSource a(*collector, "job", 0, "a", "/log/a", "node1"), b(*collector, "job", 0, "b", "/log/b", "node2");
  a.hello(now);
  b.hello(now);
  for (Step step = 1; step <= 3; ++step) {
    a.send(record(0, step, 10), now);
    b.send(record(0, step, 20), now);
  }
  EXPECT_EQ(view(1)->ranks.at(0).last_wall_ms, 10);
  EXPECT_EQ(view(2)->ranks.at(0).last_wall_ms, 20);
  EXPECT_EQ(view(1)->counts.stored + view(2)->counts.stored, 6U);
  ASSERT_EQ(view(2)->clashes.size(), 1U);
  EXPECT_EQ(view(2)->clashes[0].first.host, "node1");
  EXPECT_EQ(view(2)->clashes[0].second.host, "node2");
  EXPECT_EQ(view(2)->clashes[0].second.origin, "/log/b0");
}

TEST_F(CollectorTest, ALogThatGoesOnInAnotherFileStaysInItsAttempt) {
  TestSource first(*collector, "job", 0, "a", "/log/a");
  first.hello(now);
  for (Step step = 1; step <= 10; ++step) first.send(record(0, step, 10), now);
  first.bye(false, now);
  TestSource second(*collector, "job", 0, "b", "/log/b");
  second.hello(now);
  for (Step step = 11; step <= 20; ++step) second.send(record(0, step, 10), now);
  EXPECT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, std::vector<std::uint32_t>{1});
  EXPECT_EQ(view()->ranks.at(0).records, 20U);
}

TEST_F(CollectorTest, AnEndedRankIsNotWaitedFor) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  sources[2].end(now);
  for (const Rank rank : {0U, 1U, 3U}) sources[rank].send(record(rank, 2, 10), now);
  EXPECT_EQ(history().at(2).state, StepState::complete);
  EXPECT_EQ(history().at(2).expected, 3U);
  EXPECT_EQ(history().at(1).expected, 4U);
}

TEST_F(CollectorTest, SettingsMayComeAfterRecords) {
  std::vector<TestSource> sources;
  for (Rank rank = 0; rank < 2; ++rank) {
    sources.emplace_back(*collector, "job", rank, "s" + std::to_string(rank));
    sources.back().hello(now);
  }
  sources[0].send(record(0, 2, 10), now);
  sources[0].send(record(0, 5, 10), now);  // nobody knows of rank 1 yet: step 2 looks whole
  sources[0].config(R"({"world_size":2})", 2, now);
  EXPECT_FALSE(history().contains(2));
  sources[1].send(record(1, 2, 11), now);
  EXPECT_EQ(history().at(2).state, StepState::complete);
  EXPECT_EQ(history().at(2).slowest, 1U);
}

// Acks: what is told is durable, and waits for no dead rank longer than asked.
TEST_F(CollectorTest, RunStatesFollowTheLastRecord) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 5, 100), now);
  const auto state = [&] { return state_at(*view(), collector->snapshot(now, {})->runs[0]->closed, now); };
  EXPECT_EQ(state(), RunState::running);
  now += 60'001;
  collector->tick(now);
  EXPECT_EQ(state(), RunState::stalled);
  now += 30 * 60'000;
  EXPECT_EQ(state(), RunState::lost);
  sources[0].send(record(0, 6, 100), now);
  EXPECT_EQ(state(), RunState::running);
  EXPECT_TRUE(collector->close_run("job"));
  EXPECT_EQ(state(), RunState::ended);
  sources[1].send(record(1, 6, 100), now);
  EXPECT_EQ(state(), RunState::running);
  EXPECT_FALSE(collector->close_run("no such run"));
}

TEST_F(CollectorTest, ARunEndsWhenEveryRankHasSaidSo) {
  auto sources = four_ranks();
  for (Rank rank = 0; rank < 4; ++rank) sources[rank].send(record(rank, 1, 10), now);
  for (Rank rank = 0; rank < 3; ++rank) sources[rank].end(now);
  EXPECT_EQ(state_at(*view(), false, now), RunState::running);
  sources[3].bye(true, now);  // its file was read to the end
  EXPECT_EQ(state_at(*view(), false, now), RunState::ended);
}

TEST_F(CollectorTest, DroppedItemsAreCounted) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  source.send(record(0, 1, 10), now);
  LayoutTable layouts;
  PackedRecords packed;
  record(0, 9, 10).pack(layouts, packed);
  const Items items{.first_seq = 9, .dropped_before = 7, .attempt = 1, .first_layout = 1, .what = packed};
  EXPECT_EQ(collector->apply(source.key(), items, now), Taken::taken);
  EXPECT_EQ(view()->counts.dropped, 7U);
  EXPECT_EQ(view()->counts.stored, 2U);
  EXPECT_EQ(view()->ranks.at(0).live, true);
}

TEST_F(CollectorTest, LostItemsAreNamedOnceThatIsDurableAndAfterARestartToo) {
  TestSource source(*collector, "job", 3, "a", "api");
  source.hello(now);
  source.send(record(3, 1, 10), now);
  const auto lose = [&](std::uint64_t count) {
    source.next_seq += count;
    source.send(record(3, static_cast<Step>(source.next_seq), 10), now, count);
  };
  const auto losses = [&] { return collector->snapshot(now, {})->runs.at(0)->losses; };
  lose(7);
  EXPECT_TRUE(losses().empty());
  (void)collector->collect(now, 0);
  collector->not_committed();
  commit();
  lose(1);
  commit();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(losses().size(), 1U);
    EXPECT_EQ(losses()[0].rank, 3U);
    EXPECT_EQ(losses()[0].origin, "api3");
    EXPECT_EQ(losses()[0].dropped, 8U);
    EXPECT_EQ(losses()[0].ranges, (std::vector<SeqRange>{{2, 8}, {10, 10}}));
    restart();
  }
}

// A kill between the answer to a reader and the commit must not take back what the reader was told, nor count
// it twice when the agent tells it again.
TEST_F(CollectorTest, ALossIsShownOnceStoredAndAKillBeforeThatNeitherHidesNorDoublesIt) {
  const auto losses = [&] { return collector->snapshot(now, {})->runs.at(0)->losses; };
  const auto lose_seven = [&](TestSource& source) {
    source.next_seq = 9;
    source.send(record(0, 9, 10), now, 7);
  };
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  source.send(record(0, 1, 10), now);
  commit();
  lose_seven(source);
  EXPECT_TRUE(losses().empty());
  (void)collector->collect(now, 0);  // the store has it, and nobody knows yet whether it can be written
  EXPECT_TRUE(losses().empty());
  restart();
  EXPECT_TRUE(losses().empty());
  EXPECT_EQ(view()->counts.dropped, 0U);
  TestSource again(*collector, "job", 0, "a");
  EXPECT_EQ(again.hello(now).committed_seq, 1U);
  lose_seven(again);
  commit();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(losses().size(), 1U);
    EXPECT_EQ(losses()[0].dropped, 7U);
    EXPECT_EQ(losses()[0].ranges, (std::vector<SeqRange>{{2, 8}}));
    EXPECT_EQ(view()->counts.dropped, 7U);
    restart();
  }
}

TEST_F(CollectorTest, SourcesWithLossesBeyondTheNamedOnesAreCounted) {
  const auto run = [&] { return collector->snapshot(now, {})->runs.at(0); };
  for (std::size_t i = 0; i < limits::kMaxLossySources + 3; ++i) {
    TestSource source(*collector, "job", static_cast<Rank>(i), "source" + std::to_string(i));
    source.hello(now);
    source.next_seq = 3;
    source.send(record(static_cast<Rank>(i), 3, 10), now, 2);
    if (i + 1 != limits::kMaxLossySources) continue;
    commit();
    EXPECT_EQ(run()->losses.size(), limits::kMaxLossySources);
    EXPECT_EQ(run()->unlisted_losses.sources, 0U);
  }
  commit();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run()->losses.size(), limits::kMaxLossySources);
    EXPECT_EQ(run()->losses.back().rank, limits::kMaxLossySources - 1);
    EXPECT_EQ(run()->unlisted_losses.sources, 3U);
    EXPECT_EQ(run()->unlisted_losses.dropped, 6U);
    restart();
  }
}

TEST_F(CollectorTest, OnlyTheNewestLostRangesAreNamed) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  for (std::size_t i = 0; i < limits::kMaxLostRanges + 3; ++i) {
    ++source.next_seq;
    source.send(record(0, static_cast<Step>(source.next_seq), 10), now, 1);
    commit();
  }
  const Losses losses = collector->snapshot(now, {})->runs.at(0)->losses.at(0);
  EXPECT_EQ(losses.dropped, limits::kMaxLostRanges + 3);
  EXPECT_EQ(losses.ranges.size(), limits::kMaxLostRanges);
  EXPECT_EQ(losses.ranges.front(), (SeqRange{7, 7}));
}

// A13: a config that contradicts itself is said so.
TEST_F(CollectorTest, ContradictingSettingsAreAWarning) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  source.config(R"({"world_size":4,"micro_batch":8,"accumulation":2,"global_batch":32})", 4, now);
  ASSERT_EQ(view()->warnings.size(), 1U);
  EXPECT_NE(view()->warnings[0].find("8 x accumulation 2 x world_size 4 = 64, but global_batch is 32"),
            std::string::npos)
      << view()->warnings[0];
}

TEST_F(CollectorTest, ASourceIdOfAnotherRankIsRefused) {
  TestSource source(*collector, "job", 0, "a");
  source.hello(now);
  Hello stolen{.run = "job", .rank = 1, .source_id = "a"};
  EXPECT_TRUE(std::holds_alternative<Refused>(collector->hello(stolen, {}, now)));
}

// Two srun of one allocation, two torchrun of one script: their ranks arrive in any order.
TEST_F(CollectorTest, TwoStartsAtTheSameTimeAreTwoAttempts) {
  const std::vector<std::pair<std::string, Rank>> starts{{"a", 0}, {"b", 0}, {"a", 1}, {"b", 1}};
  for (std::vector<std::size_t> order{0, 1, 2, 3};;) {
    collector = std::make_unique<Collector>(options, Restored{}, archive, now);
    std::vector<TestSource> sources;
    for (const std::size_t i : order) {
      const auto& [launch, rank] = starts[i];
      sources.emplace_back(*collector, "job", rank, launch + std::to_string(rank), "api", "node-" + launch);
      sources.back().hello(now);
      sources.back().config(R"({"world_size":2,"launch_id":")" + launch + R"(","started_unix_ms":)" +
                                std::to_string(1000 + i) + "}",
                            2, now);
    }
    ASSERT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, (std::vector<std::uint32_t>{1, 2}));
    for (const std::uint32_t number : {1U, 2U}) {
      const auto attempt = view(number);
      ASSERT_EQ(attempt->ranks.size(), 2U);
      EXPECT_EQ(attempt->ranks[0].host, attempt->ranks[1].host);
    }
    if (!std::ranges::next_permutation(order).found) break;
  }
}

// The port of the next start is the same, its world is larger, and a rank that was not there before comes
// first.
TEST_F(CollectorTest, ARankOfTheNextStartIsNotTakenForOneThatWasLate) {
  for (const auto& [start, world, ranks] :
       {std::tuple{1, 2, std::vector<Rank>{0, 1}}, std::tuple{2, 4, std::vector<Rank>{3, 0, 1, 2}}})
    for (const Rank rank : ranks) {
      TestSource source(*collector, "job", rank, std::to_string(start) + std::to_string(rank), "api",
                        "node" + std::to_string(start));
      source.hello(now);
      source.config(R"({"launch_id":"29500","world_size":)" + std::to_string(world) +
                        R"(,"started_unix_ms":)" + std::to_string(start) + "}",
                    static_cast<std::uint32_t>(world), now);
      if (start == 1) source.bye(true, now);
    }
  EXPECT_EQ(view(1)->ranks.size(), 2U);
  EXPECT_EQ(view(2)->ranks.size(), 4U);
}

// The token of a start may come again, as a port does; its attempt has been there.
TEST_F(CollectorTest, TheSameStartAgainIsTheNextAttempt) {
  for (const int start : {1, 2})
    for (const Rank rank : {0U, 1U}) {
      TestSource source(*collector, "job", rank, std::to_string(start) + std::to_string(rank), "api",
                        "node" + std::to_string(start));
      source.hello(now);
      source.config(
          R"({"world_size":2,"launch_id":"node:29500","started_unix_ms":)" + std::to_string(start) + "}", 2,
          now);
      source.bye(true, now);
    }
  EXPECT_EQ(collector->snapshot(now, {})->runs.at(0)->attempts, (std::vector<std::uint32_t>{1, 2}));
}

}  // namespace
}  // namespace laggard::core
