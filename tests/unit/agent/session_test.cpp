#include "agent/session.h"

#include <gtest/gtest.h>

#include "agent/line_parser.h"
#include "proto/wire.pb.h"

namespace laggard::agent {
namespace {

using namespace std::chrono_literals;

class SessionTest : public testing::Test {
 protected:
  void add_update(int step) {
    const std::string line = R"({"type":"update","rank":0,"step":)" + std::to_string(step) + "}";
    LineParser parser;
    parser.start(line);
    EXPECT_EQ(source_.add_update(*parser.next()), std::nullopt);
    source_.flush();
  }
  // What the session says now: "" for nothing, else the name of the message's kind.
  std::string next(wire::Envelope* envelope = nullptr) {
    wire::Envelope local;
    if (envelope == nullptr) envelope = &local;
    const auto message = session_.next_message(now_);
    if (!message.has_value()) return "";
    EXPECT_TRUE(envelope->ParseFromString(*message));
    switch (envelope->body_case()) {
      case wire::Envelope::kHello:
        return "hello";
      case wire::Envelope::kBatch:
        return "batch";
      case wire::Envelope::kHeartbeat:
        return "heartbeat";
      default:
        return "?";
    }
  }
  void hear(const decltype(Incoming::body)& body) { session_.on_message({7, body}, now_); }
  void welcome() { hear(Welcome{.committed_seq = source_.committed_seq(), .window_records = 100}); }
  // Opens the session and lets the heartbeat pass that is due at once.
  void open() {
    EXPECT_EQ(next(), "hello");
    welcome();
    EXPECT_EQ(next(), "heartbeat");
  }

  RankSource source_{7, Hello{.run = "r", .rank = 0}, {}};
  LineCounts lines_;
  Session session_{source_, &lines_};
  Session::Time now_{1000s};
};

TEST_F(SessionTest, NothingIsSentBeforeWelcome) {
  add_update(1);
  EXPECT_EQ(next(), "hello");
  EXPECT_EQ(next(), "");
  welcome();
  EXPECT_EQ(next(), "batch");
  EXPECT_EQ(next(), "heartbeat");
  EXPECT_EQ(next(), "");
}

TEST_F(SessionTest, HeartbeatsTellWhatBecameOfTheLines) {
  lines_.updates = 5;
  lines_.ends = 1;
  lines_.add_foreign("x");
  lines_.add_rejected(3, "y");
  lines_.add_rejected(4, "z");
  lines_.pending_tail = 1;
  EXPECT_EQ(next(), "hello");
  welcome();
  wire::Envelope envelope;
  EXPECT_EQ(next(&envelope), "heartbeat");
  EXPECT_EQ(envelope.heartbeat().lines().accepted(), 6u);
  EXPECT_EQ(envelope.heartbeat().lines().foreign(), 1u);
  EXPECT_EQ(envelope.heartbeat().lines().rejected(), 2u);
  EXPECT_EQ(envelope.heartbeat().lines().pending_tail(), 1u);
  now_ += 1999ms;
  EXPECT_EQ(next(), "");
  now_ += 1ms;
  EXPECT_EQ(next(), "heartbeat");
}

TEST_F(SessionTest, SilenceWhileAWelcomeIsOwedMakesItAskAgain) {
  EXPECT_EQ(next(), "hello");
  now_ += 6s;
  EXPECT_EQ(next(), "");
  now_ += 1ms;
  EXPECT_EQ(next(), "hello");
}

TEST_F(SessionTest, SilenceWhileAnAckIsOwedMakesItAskAgain) {
  open();
  now_ += 100s;  // nothing is owed: this is no silence
  EXPECT_EQ(next(), "heartbeat");
  add_update(1);
  EXPECT_EQ(next(), "batch");
  now_ += 5s;
  EXPECT_EQ(next(), "heartbeat");
  hear(Heartbeat{});  // alive, and slow to commit
  now_ += 6s;
  EXPECT_EQ(next(), "heartbeat");
  now_ += 1s;
  EXPECT_EQ(next(), "hello");
  welcome();
  EXPECT_EQ(next(), "batch");
}

TEST_F(SessionTest, RejectThatAsksForHelloGetsOneASecond) {
  add_update(1);
  EXPECT_EQ(next(), "hello");
  welcome();
  EXPECT_EQ(next(), "batch");
  hear(Reject{"", true});
  EXPECT_EQ(next(), "");
  now_ += 1s;
  EXPECT_EQ(next(), "hello");
  welcome();
  EXPECT_EQ(next(), "batch");
}

TEST_F(SessionTest, RepeatedAckWithoutProgressMakesItAskFromWhereToGoOn) {
  add_update(1);
  add_update(2);
  EXPECT_EQ(next(), "hello");
  welcome();
  EXPECT_EQ(next(), "batch");
  EXPECT_EQ(next(), "batch");
  now_ += 2s;
  hear(Ack{.committed_seq = 1, .credit = 100});
  hear(Ack{.committed_seq = 1, .credit = 100});
  EXPECT_TRUE(session_.is_open());
  hear(Ack{.committed_seq = 1, .credit = 100});
  EXPECT_EQ(next(), "hello");
  welcome();
  wire::Envelope envelope;
  EXPECT_EQ(next(&envelope), "batch");
  EXPECT_EQ(envelope.batch().first_seq(), 2u);
}

TEST_F(SessionTest, LostConnectionMakesItAskAtOnce) {
  open();
  session_.on_disconnect();
  EXPECT_EQ(next(), "hello");
}

TEST_F(SessionTest, WhatWasRefusedIsOfferedAgainOnAnotherConnection) {
  EXPECT_EQ(next(), "hello");
  hear(Reject{"no such protocol", false});
  EXPECT_EQ(session_.refusal(), "no such protocol");
  now_ += Session::kRefusedInterval - 1s;
  EXPECT_EQ(next(), "");
  session_.on_disconnect();
  EXPECT_EQ(next(), "hello");
  EXPECT_EQ(session_.refusal(), "no such protocol");
  welcome();
  EXPECT_EQ(session_.refusal(), "");
  EXPECT_FALSE(session_.collector_forgot());
  add_update(1);
  EXPECT_EQ(next(), "batch");
}

TEST_F(SessionTest, WhatWasRefusedIsOfferedAgainNowAndThen) {
  EXPECT_EQ(next(), "hello");
  for (int i = 0; i < 2; ++i) {
    hear(Reject{"key not allowed", false});
    EXPECT_EQ(next(), "");
    now_ += Session::kRefusedInterval;
    EXPECT_EQ(next(), "hello");
    EXPECT_EQ(next(), "");
    EXPECT_EQ(session_.refusal(), "key not allowed");
  }
  welcome();
  EXPECT_EQ(session_.refusal(), "");
}

TEST_F(SessionTest, WelcomeAfterARefusalThatDroppedItemsAsksForThemAgain) {
  add_update(1);
  EXPECT_EQ(next(), "hello");
  hear(Reject{"full", false});
  session_.on_disconnect();
  EXPECT_EQ(next(), "hello");
  hear(Welcome{.committed_seq = 0, .window_records = 100});
  EXPECT_TRUE(session_.collector_forgot());
}

TEST_F(SessionTest, CollectorThatForgotIsNotTalkedTo) {
  add_update(1);
  EXPECT_EQ(next(), "hello");
  welcome();
  EXPECT_EQ(next(), "batch");
  hear(Ack{.committed_seq = 1, .credit = 100});
  session_.on_disconnect();
  EXPECT_EQ(next(), "hello");
  hear(Welcome{.committed_seq = 0, .window_records = 100});
  EXPECT_TRUE(session_.collector_forgot());
  EXPECT_EQ(next(), "");
}

}  // namespace
}  // namespace laggard::agent
