#include "agent/rank_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/line_parser.h"
#include "proto/wire.pb.h"

namespace laggard::agent {
namespace {

using testing::ElementsAre;

TEST(AttemptState, ConfigAfterUpdatesBeginsTheNextAttempt) {
  AttemptState state;
  state.on_config({});
  EXPECT_EQ(state.attempt, 1u);
  state.on_update();
  state.on_config({});
  EXPECT_EQ(state.attempt, 2u);
  state.on_config({});  // written twice: nothing was measured in between
  EXPECT_EQ(state.attempt, 2u);
  EXPECT_FALSE(state.explicit_number);
}

TEST(AttemptState, FirstConfigBeginsNothingEvenAfterUpdates) {
  AttemptState state;
  state.on_update();
  state.on_config({});
  EXPECT_EQ(state.attempt, 1u);
}

TEST(AttemptState, NumberThatAConfigSaysCounts) {
  AttemptState state;
  state.on_config(4);
  EXPECT_EQ(state.attempt, 4u);
  EXPECT_TRUE(state.explicit_number);
  state.on_update();
  state.on_config(4);
  EXPECT_EQ(state.attempt, 4u);
  state.on_update();
  state.on_config(2);
  EXPECT_EQ(state.attempt, 4u);
  state.on_update();
  state.on_config({});
  EXPECT_EQ(state.attempt, 5u);
  EXPECT_FALSE(state.explicit_number);
}

class RankSourceTest : public testing::Test {
 protected:
  void add(const std::string& line) {
    parser_.start(line);
    const ParsedLine* parsed = parser_.next();
    ASSERT_NE(parsed, nullptr);
    if (parsed->kind == LineKind::update)
      EXPECT_EQ(source_.add_update(*parsed), std::nullopt);
    else if (parsed->kind == LineKind::config)
      source_.add_config(*parsed);
    else
      source_.add_end();
  }
  void add_update(int step, const std::string& stage = "f") {
    add(R"({"type":"update","rank":3,"step":)" + std::to_string(step) + R"(,"cuda_stream_ms":{")" + stage +
        "\":1.5}}");
  }
  void add_config() { add(R"({"type":"config","rank":3,"world_size":4})"); }

  std::optional<wire::Batch> next() {
    const auto message = source_.next_batch();
    if (!message.has_value()) return std::nullopt;
    wire::Envelope envelope;
    EXPECT_TRUE(envelope.ParseFromString(*message));
    EXPECT_EQ(envelope.channel(), 7u);
    EXPECT_TRUE(envelope.has_batch());
    return envelope.batch();
  }
  // First item and number of layouts of every batch that can be sent.
  std::vector<std::pair<std::uint64_t, int>> send_all() {
    std::vector<std::pair<std::uint64_t, int>> out;
    while (const auto batch = next()) out.emplace_back(batch->first_seq(), batch->layouts_size());
    return out;
  }
  wire::Hello hello() {
    wire::Envelope envelope;
    EXPECT_TRUE(envelope.ParseFromString(source_.hello()));
    return envelope.hello();
  }
  void open(std::uint64_t committed = 0, std::uint32_t window = 1000) {
    (void)source_.hello();
    EXPECT_TRUE(source_.on_welcome({.committed_seq = committed, .window_records = window}));
  }

  LineParser parser_;
  RankSource source_{7, Hello{.run = "r", .rank = 3, .source = {.id = "id"}}, {}};
};

TEST_F(RankSourceTest, ItemsAreNumberedFromOneAndConfigsStandAlone) {
  add_update(1);
  add_update(2);
  add_config();
  add_update(3);
  add_config();
  add(R"({"type":"end","rank":3})");
  open();
  auto batch = next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->first_seq(), 1u);
  EXPECT_EQ(batch->attempt(), 1u);
  EXPECT_THAT(batch->records().steps(), ElementsAre(1, 2));
  EXPECT_THAT(batch->records().doubles(), testing::SizeIs(4));
  batch = next();
  EXPECT_EQ(batch->first_seq(), 3u);
  EXPECT_EQ(batch->config().world_size(), 4u);
  EXPECT_EQ(batch->config().settings(), R"({"rank":3,"type":"config","world_size":4})");
  batch = next();
  EXPECT_EQ(batch->first_seq(), 4u);
  EXPECT_THAT(batch->records().steps(), ElementsAre(3));
  batch = next();
  EXPECT_EQ(batch->first_seq(), 5u);
  EXPECT_EQ(batch->attempt(), 2u);
  EXPECT_TRUE(batch->has_config());
  batch = next();
  EXPECT_EQ(batch->first_seq(), 6u);
  EXPECT_TRUE(batch->has_end());
  EXPECT_FALSE(next());
  EXPECT_EQ(source_.uncommitted(), 6u);
}

TEST_F(RankSourceTest, OpenBatchIsSentOnlyAfterFlush) {
  open();
  add_update(1);
  EXPECT_FALSE(next());
  source_.flush();
  EXPECT_TRUE(next());
  EXPECT_FALSE(next());
}

TEST_F(RankSourceTest, FullBatchClosesItself) {
  open(0, 5000);
  for (std::size_t i = 0; i < RankSource::kBatchRecords + 1; ++i) add_update(static_cast<int>(i));
  const auto batch = next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->records().ranks_size(), static_cast<int>(RankSource::kBatchRecords));
  EXPECT_FALSE(next());
}

TEST_F(RankSourceTest, LayoutTravelsOnceInASessionAndInEveryHello) {
  using Sent = std::vector<std::pair<std::uint64_t, int>>;
  open();
  add_update(1, "f");
  source_.flush();
  add_update(2, "f");
  source_.flush();
  add_update(3, "g");
  source_.flush();
  EXPECT_EQ(send_all(), (Sent{{1, 1}, {2, 0}, {3, 1}}));
  EXPECT_EQ(hello().layouts_size(), 2);
  EXPECT_TRUE(source_.on_welcome({.committed_seq = 0, .window_records = 1000}));
  add_update(4, "h");
  source_.flush();
  EXPECT_EQ(send_all(), (Sent{{1, 0}, {2, 0}, {3, 0}, {4, 1}}));
  EXPECT_EQ(hello().layouts(2).stream(0), "h");
}

TEST_F(RankSourceTest, GoesBackToTheFirstBatchThatIsNotCommitted) {
  using Sent = std::vector<std::pair<std::uint64_t, int>>;
  for (int step = 1; step <= 6; ++step) {
    add_update(step);
    if (step % 2 == 0) source_.flush();
  }
  open();
  EXPECT_EQ(send_all(), (Sent{{1, 0}, {3, 0}, {5, 0}}));
  source_.on_ack({.committed_seq = 2, .credit = 1000});
  EXPECT_EQ(source_.uncommitted(), 4u);
  EXPECT_EQ(send_all(), Sent{});
  open(3);  // in the middle of a batch: the collector counts its first half as duplicate
  EXPECT_EQ(send_all(), (Sent{{3, 0}, {5, 0}}));
  source_.on_ack({.committed_seq = 6, .credit = 1000});
  EXPECT_EQ(source_.uncommitted(), 0u);
  EXPECT_EQ(source_.window_bytes(), 0u);
  EXPECT_FALSE(source_.in_flight());
}

TEST_F(RankSourceTest, CreditBoundsWhatIsOnItsWay) {
  for (int step = 1; step <= 6; ++step) {
    add_update(step);
    if (step % 2 == 0) source_.flush();
  }
  open(0, 4);
  EXPECT_EQ(send_all().size(), 2u);
  source_.on_ack({.committed_seq = 2, .credit = 4});
  EXPECT_EQ(send_all().size(), 1u);
  source_.on_ack({.committed_seq = 6, .credit = 0});
  add_update(7);
  add_update(8);
  source_.flush();
  EXPECT_EQ(send_all().size(), 0u);
  source_.on_ack({.committed_seq = 6, .credit = 1});  // less than the batch: it goes all the same, alone
  EXPECT_EQ(send_all().size(), 1u);
}

TEST_F(RankSourceTest, CollectorThatLostWhatItAcknowledgedIsNoticed) {
  add_update(1);
  source_.flush();
  open();
  send_all();
  source_.on_ack({.committed_seq = 1, .credit = 10});
  (void)source_.hello();
  EXPECT_FALSE(source_.on_welcome({.committed_seq = 0, .window_records = 10}));
}

TEST_F(RankSourceTest, AckOfWhatWasNeverSentIsCutToWhatWas) {
  add_update(1);
  source_.flush();
  add_update(2);
  open();
  source_.on_ack({.committed_seq = 999, .credit = 10});
  EXPECT_EQ(source_.committed_seq(), 1u);
  source_.flush();
  const auto batch = next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->first_seq(), 2u);
}

TEST_F(RankSourceTest, FullWindowSaysSo) {
  open(0, limits::kWindowRecords);
  for (std::uint32_t i = 0; i < limits::kWindowRecords; ++i) {
    EXPECT_FALSE(source_.full());
    add_update(static_cast<int>(i));
  }
  EXPECT_TRUE(source_.full());
  send_all();
  source_.on_ack({.committed_seq = RankSource::kBatchRecords, .credit = limits::kWindowRecords});
  EXPECT_FALSE(source_.full());
}

TEST_F(RankSourceTest, RefusedSourceCountsItsItemsAndHoldsNone) {
  add_update(1);
  source_.flush();
  add_update(2);
  source_.on_refusal();
  EXPECT_EQ(source_.window_bytes(), 0u);
  for (std::uint32_t i = 2; i < limits::kWindowRecords + 5; ++i) add_update(static_cast<int>(i));
  source_.flush();
  EXPECT_EQ(source_.uncommitted(), limits::kWindowRecords + 5u);
  EXPECT_EQ(source_.window_bytes(), 0u);
  EXPECT_FALSE(source_.full());
  EXPECT_FALSE(next());
  (void)source_.hello();
  EXPECT_FALSE(source_.on_welcome({.committed_seq = 1, .window_records = 10}));
}

TEST_F(RankSourceTest, LayoutsOfMoreNameBytesThanAHelloMayHoldAreRefused) {
  // 2048 names of 509 bytes, 3 more for each on the wire: exactly 1 MiB.
  const auto object = [](int first) {
    std::string out = R"({"type":"update","rank":3,"step":1,"counts":{)";
    for (int i = first; i < first + 1024; ++i) {
      std::string name = std::to_string(i);
      name.resize(509, 'x');
      out += (i > first ? ",\"" : "\"") + name + "\":1";
    }
    return out + "}}";
  };
  add(object(10'000));
  add(object(20'000));
  parser_.start(R"({"type":"update","rank":3,"step":1,"counts":{"a":1}})");
  EXPECT_EQ(source_.add_update(*parser_.next()), "too many record shapes");
  add(object(10'000));
  EXPECT_LT(source_.hello().size(), limits::kMaxMessageBytes / 2);
}

TEST_F(RankSourceTest, TooManyShapesAreRefusedAndKnownOnesAreNot) {
  for (std::size_t i = 0; i < limits::kMaxLayoutsPerSource; ++i) add_update(1, "s" + std::to_string(i));
  parser_.start(R"({"type":"update","rank":3,"step":1,"cuda_stream_ms":{"new":1.5}})");
  EXPECT_EQ(source_.add_update(*parser_.next()), "too many record shapes");
  add_update(2, "s5");
}

}  // namespace
}  // namespace laggard::agent
