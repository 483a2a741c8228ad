#include "agent/file_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/utf8.h"
#include "proto/wire.pb.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::agent {
namespace {

using test::append;
using test::contents;
using test::TempDir;

const std::string kCases = LAGGARD_TEST_DATA "/cases/";

std::string update(int rank, int step) {
  return R"({"type":"update","rank":)" + std::to_string(rank) + R"(,"step":)" + std::to_string(step) + "}\n";
}
std::string config(int rank) { return R"({"type":"config","rank":)" + std::to_string(rank) + "}\n"; }

// Attempt of every item that can be sent, in order, after committing nothing.
std::vector<std::uint32_t> attempts_of(RankSource& source) {
  std::vector<std::uint32_t> out;
  (void)source.hello();
  EXPECT_TRUE(source.on_welcome({.committed_seq = source.committed_seq(), .window_records = 10'000}));
  while (const auto message = source.next_batch()) {
    wire::Envelope envelope;
    EXPECT_TRUE(envelope.ParseFromString(*message));
    const int items = envelope.batch().has_records() ? envelope.batch().records().ranks_size() : 1;
    out.insert(out.end(), static_cast<std::size_t>(items), envelope.batch().attempt());
  }
  return out;
}

class FileFeedTest : public testing::Test {
 protected:
  RankSource& source(FileFeed& feed, Rank rank) { return *feed.ranks().at(rank).source; }
  void commit_all(FileFeed& feed) {
    for (const auto& [rank, entry] : feed.ranks()) {
      (void)attempts_of(*entry.source);
      entry.source->on_ack({.committed_seq = entry.source->last_seq(), .credit = 1000});
    }
  }

  TempDir dir_;
  const std::string path_ = dir_ / "log.jsonl";
  SourceFactory sources_{"run", {}};
};

TEST_F(FileFeedTest, ResumedJobBeginsItsSecondAttempt) {
  FileFeed feed(kCases + "A01/rank0.jsonl", sources_);
  EXPECT_FALSE(feed.pump());
  EXPECT_EQ(attempts_of(source(feed, 0)),
            (std::vector<std::uint32_t>{1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}));
}

TEST_F(FileFeedTest, StepBackWithoutAConfigIsLeftToTheCollector) {
  FileFeed feed(kCases + "A01/rank0_no_second_config.jsonl", sources_);
  feed.pump();
  EXPECT_EQ(attempts_of(source(feed, 0)), std::vector<std::uint32_t>(12, 1));
}

TEST_F(FileFeedTest, LinesOfSeveralRanksFeedSeveralSources) {
  FileFeed feed(kCases + "A13/acc.jsonl", sources_);
  feed.pump();
  ASSERT_EQ(feed.ranks().size(), 4u);
  std::set<std::uint32_t> channels;
  for (const auto& [rank, entry] : feed.ranks()) {
    EXPECT_EQ(entry.updates, 2u);
    EXPECT_EQ(entry.configs, 1u);
    EXPECT_EQ(entry.source->last_seq(), 3u);
    channels.insert(entry.source->channel());
  }
  EXPECT_EQ(channels.size(), 4u);
  EXPECT_EQ(feed.counts().foreign.at("unknown type"), 16u);
  EXPECT_EQ(feed.counts().lines(), 28u);
}

TEST_F(FileFeedTest, UnfinishedTailIsPendingUntilItsRestComes) {
  append(path_, contents(kCases + "A05/tail_cut.jsonl"));
  FileFeed feed(path_, sources_);
  feed.pump();
  EXPECT_EQ(feed.counts().updates, 8u);
  EXPECT_EQ(feed.counts().pending_tail, 1u);
  EXPECT_EQ(feed.counts().totals().rejected, 0u);
  append(path_, contents(kCases + "A05/tail_rest.bin"));
  feed.pump();
  EXPECT_EQ(feed.counts().updates, 9u);
  EXPECT_EQ(feed.counts().pending_tail, 0u);
  EXPECT_EQ(feed.counts().totals().rejected, 0u);
}

TEST_F(FileFeedTest, UnfinishedTailOfAClosedRunIsRejectedWithItsLine) {
  FileFeed feed(kCases + "A05/tail_cut.jsonl", sources_);
  feed.pump();
  feed.finish();
  EXPECT_EQ(feed.counts().updates, 8u);
  EXPECT_EQ(feed.counts().pending_tail, 0u);
  ASSERT_EQ(feed.counts().first_rejections.size(), 1u);
  EXPECT_EQ(feed.counts().first_rejections[0].line, 10u);
  EXPECT_EQ(feed.counts().lines(), 10u);
}

TEST_F(FileFeedTest, TheFirstLineOfEachReasonIsKept) {
  for (int i = 0; i < 7; ++i) append(path_, "[]\n");
  append(path_, "{\"type\": \"update\", \"rank\": 0, \"st\n");
  FileFeed feed(path_, sources_);
  feed.pump();
  EXPECT_EQ(feed.counts().rejected.size(), 2u);
  ASSERT_EQ(feed.counts().first_rejections.size(), LineCounts::kRejectionsKept + 1);
  EXPECT_EQ(feed.counts().first_rejections.back().line, 8u);
}

TEST_F(FileFeedTest, TailWithoutANewlineThatIsWholeIsAccepted) {
  append(path_, update(0, 1) + R"({"type":"end","rank":0})");
  FileFeed feed(path_, sources_);
  feed.pump();
  EXPECT_EQ(feed.counts().ends, 0u);
  feed.finish();
  EXPECT_EQ(feed.counts().ends, 1u);
  EXPECT_EQ(source(feed, 0).last_seq(), 2u);
}

TEST_F(FileFeedTest, CheckpointWaitsForAllRanks) {
  append(path_, config(0) + update(0, 1) + config(1) + update(1, 1));
  FileFeed feed(path_, sources_);
  feed.pump();
  feed.begin_checkpoint();
  EXPECT_FALSE(feed.take_checkpoint());
  (void)attempts_of(source(feed, 0));
  source(feed, 0).on_ack({.committed_seq = 2, .credit = 10});
  EXPECT_FALSE(feed.take_checkpoint());
  append(path_, config(0));  // read after the checkpoint began: not part of it
  const std::uint64_t size_before = contents(path_).size() - config(0).size();
  feed.pump();
  (void)attempts_of(source(feed, 1));
  source(feed, 1).on_ack({.committed_seq = 2, .credit = 10});
  const auto progress = feed.take_checkpoint();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->place.offset, size_before);
  EXPECT_EQ(progress->ranks.at(0).attempts, (AttemptState{1, false, true, true}));
  EXPECT_FALSE(feed.take_checkpoint());
}

TEST_F(FileFeedTest, CheckpointIsNotedAnewWhenAttemptsWereRenumbered) {
  append(path_, update(0, 5));
  FileFeed feed(path_, sources_);
  feed.pump();
  feed.begin_checkpoint();
  append(path_, update(0, 1));  // the collector makes the next attempt of it
  feed.pump();
  (void)attempts_of(source(feed, 0));
  source(feed, 0).on_ack({.committed_seq = 2, .credit = 10, .attempt_offset = 1});
  EXPECT_FALSE(feed.take_checkpoint());  // its place stands before the step back
  const auto progress = feed.take_checkpoint();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->place.offset, contents(path_).size());
  EXPECT_EQ(progress->ranks.at(0).attempt_offset, 1u);
}

TEST_F(FileFeedTest, RefusedRankDoesNotHoldUpTheOthers) {
  append(path_, update(0, 1) + update(1, 1));
  FileFeed feed(path_, sources_);
  feed.pump();
  source(feed, 0).on_refusal();
  std::string lines;
  for (std::uint32_t i = 0; i < limits::kWindowRecords; ++i) lines += update(0, static_cast<int>(i));
  append(path_, lines + update(1, 2));
  while (feed.pump()) {
    ASSERT_FALSE(feed.full());
  }
  EXPECT_EQ(feed.ranks().at(1).updates, 2u);
  EXPECT_EQ(source(feed, 0).uncommitted(), limits::kWindowRecords + 1u);
}

TEST_F(FileFeedTest, OriginIsUtf8) {
  const std::string path = dir_ / "r\xff.jsonl";
  append(path, update(0, 1));
  FileFeed feed(path, sources_);
  feed.pump();
  wire::Envelope envelope;
  ASSERT_TRUE(envelope.ParseFromString(source(feed, 0).hello()));
  EXPECT_THAT(envelope.hello().source().origin(), testing::EndsWith("/r\\xff.jsonl"));
}

TEST(Utf8, BytesThatAreNoneAreEscapedAndCharactersAreKept) {
  EXPECT_EQ(escape_to_utf8("a\xc3\xa9\xf0\x9f\x98\x80"), "a\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(escape_to_utf8("\xc3"), "\\xc3");
  EXPECT_EQ(escape_to_utf8("\xe2\x82z\xff"), "\\xe2\\x82z\\xff");
  EXPECT_FALSE(is_utf8("\xff"));
  EXPECT_TRUE(is_utf8(""));
}

TEST_F(FileFeedTest, ResumedFeedGoesOnWithTheSameNumbers) {
  append(path_, config(0) + update(0, 1) + config(0) + update(0, 2));
  std::optional<FileProgress> progress;
  {
    FileFeed feed(path_, sources_);
    feed.pump();
    commit_all(feed);
    feed.begin_checkpoint();
    progress = feed.take_checkpoint();
    ASSERT_TRUE(progress);
  }
  append(path_, update(0, 3) + config(0) + update(0, 1));
  FileFeed feed(path_, sources_);
  ASSERT_TRUE(feed.resume(*progress));
  EXPECT_EQ(feed.take_new_sources().size(), 1u);  // to be opened even when no line comes
  feed.pump();
  EXPECT_EQ(attempts_of(source(feed, 0)), (std::vector<std::uint32_t>{2, 3, 3}));
}

class ProgressStoreTest : public FileFeedTest {};

TEST_F(ProgressStoreTest, KeepsAndGivesBack) {
  const FileProgress progress{.collector_id = "c",
                              .place = {1, 2, 3, 4, 0xffff'ffff'ffff'ffff, 6},
                              .ranks = {{0, {{2, true, true, false}, 7}}, {9, {{1, false, false, true}, 0}}}};
  ProgressStore store(dir_ / "state/deep", "tcp://c", "run");
  EXPECT_EQ(store.load("/f"), std::nullopt);
  EXPECT_TRUE(store.save("/f", progress));
  EXPECT_EQ(ProgressStore(dir_ / "state/deep", "tcp://c", "run").load("/f"), progress);
  EXPECT_EQ(store.load("/g"), std::nullopt);
  EXPECT_EQ(ProgressStore(dir_ / "state/deep", "tcp://c", "other").load("/f"), std::nullopt);
  EXPECT_EQ(ProgressStore(dir_ / "state/deep", "tcp://d", "run").load("/f"), std::nullopt);
}

TEST_F(ProgressStoreTest, PathNeedNotBeUtf8) {
  ProgressStore store(dir_ / "state", "tcp://c", "run");
  EXPECT_TRUE(store.save("/f\xff", {.collector_id = "c", .place = {}, .ranks = {}}));
  ASSERT_TRUE(store.load("/f\xff"));
  EXPECT_EQ(store.load("/f\xff")->collector_id, "c");
}

TEST_F(ProgressStoreTest, BrokenFileIsNoProgress) {
  ProgressStore store(dir_ / "state", "tcp://c", "run");
  EXPECT_TRUE(store.save("/f", {}));
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "state"))
    std::ofstream(entry.path(), std::ios::trunc) << "{\"collector\":";
  EXPECT_EQ(store.load("/f"), std::nullopt);
}

TEST_F(ProgressStoreTest, DirectoryThatCannotBeWrittenIsSaidAndNoError) {
  append(dir_ / "file", "");
  ProgressStore store(dir_ / "file/state", "tcp://c", "run");
  EXPECT_FALSE(store.save("/f", {}));
}

}  // namespace
}  // namespace laggard::agent
