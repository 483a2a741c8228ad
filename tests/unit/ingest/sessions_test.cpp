// Sessions, with the agent's own messages and no socket between.
#include "daemon/ingest/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/messages.h"
#include "agent/rank_source.h"
#include "daemon/base/limits.h"
#include "proto/wire.pb.h"

namespace laggard::ingest {
namespace {

using agent::RankSource;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kChannel = 7;

agent::Hello hello_of(const std::string& id) {
  return {.run = "job", .rank = 3, .source = {.id = id, .host = "node1", .origin = "/log/rank3.jsonl"}};
}

agent::ParsedLine update(Step step, const std::string& stage = "forward") {
  agent::ParsedLine line;
  line.kind = agent::LineKind::update;
  line.rank = 3;
  line.step = step;
  line.layout_version = std::hash<std::string>()(stage);
  line.layout.stream = {stage};
  line.doubles = {10, 8};
  return line;
}

class SessionsTest : public ::testing::Test {
 protected:
  std::optional<Message> receive(const std::string& bytes) {
    std::vector<Outgoing> out;
    auto message = sessions_.receive("peer", bytes, now_, out, user_);
    note(out);
    return message;
  }
  void note(const std::vector<Outgoing>& out) {
    answers_.clear();
    for (const Outgoing& each : out) answers_.push_back(*agent::decode(each.bytes));
  }
  /// Who is allowed from now on.
  void allow_only(const std::vector<keys::AllowedKey>& allowed) {
    auto list = std::make_shared<keys::AllowList>();
    for (const keys::AllowedKey& key : allowed) list->allow(key);
    std::vector<Outgoing> out;
    sessions_.allow_only(list, out);
    note(out);
  }
  /// The reason of the one answer, which is a refusal for good; "" when it is not.
  std::string reason() const {
    if (answers_.size() != 1 || !std::holds_alternative<agent::Reject>(answers_[0].body)) return "";
    const auto& reject = std::get<agent::Reject>(answers_[0].body);
    return reject.hello_again ? "" : reject.reason;
  }
  SessionId greet(RankSource& source) { return std::get<HelloMessage>(*receive(source.hello())).session; }
  /// Hands the engine's answer to the source; false when there is nobody to hand it to.
  bool welcome(SessionId session, RankSource& source, core::SourceKey key) {
    const auto out = sessions_.answer(WelcomeReply{session, {.source = key}});
    if (!out.has_value()) return false;
    return source.on_welcome(std::get<agent::Welcome>(agent::decode(out->bytes)->body));
  }
  bool is_told_to_greet_again() const {
    return answers_.size() == 1 && std::holds_alternative<agent::Reject>(answers_[0].body) &&
           std::get<agent::Reject>(answers_[0].body).hello_again;
  }
  std::string batch_of(RankSource& source, Step step, const std::string& stage = "forward") {
    EXPECT_FALSE(source.add_update(update(step, stage)).has_value());
    source.flush();
    return *source.next_batch();
  }

  Sessions sessions_{"collector"};
  core::UnixMs now_ = 1'000'000;
  std::string user_;  // whose key the peer has
  std::vector<agent::Incoming> answers_;
};

TEST_F(SessionsTest, ItemsGoToTheEngineOnceTheSourceIsWelcome) {
  RankSource source(kChannel, hello_of("a"), {});
  const SessionId session = greet(source);
  EXPECT_THAT(answers_, IsEmpty());
  ASSERT_TRUE(welcome(session, source, 42));
  const auto message = receive(batch_of(source, 1));
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(std::get<ItemsMessage>(*message).source, 42);
  EXPECT_EQ(std::get<ItemsMessage>(*message).items.count(), 1U);
  EXPECT_EQ(sessions_.counts().items, 1U);
}

TEST_F(SessionsTest, ABatchWithoutAHelloAsksForOne) {
  RankSource source(kChannel, hello_of("a"), {});
  (void)source.hello();
  EXPECT_TRUE(source.on_welcome({.window_records = 100}));
  EXPECT_FALSE(receive(batch_of(source, 1)).has_value());
  EXPECT_TRUE(is_told_to_greet_again());
  EXPECT_EQ(sessions_.counts().unknown_sessions, 1U);
}

// The engine is slow: the agent has said Hello twice and takes the first welcome for the second one's.
TEST_F(SessionsTest, ABatchBeforeTheWelcomeOfItsHelloIsNotSwallowed) {
  RankSource source(kChannel, hello_of("a"), {});
  const SessionId first = greet(source);
  const SessionId second = greet(source);
  EXPECT_TRUE(source.on_welcome({.window_records = 100}));
  EXPECT_FALSE(receive(batch_of(source, 1)).has_value());
  EXPECT_TRUE(is_told_to_greet_again());
  EXPECT_FALSE(welcome(first, source, 42));  // nobody waits for this one any more
  EXPECT_TRUE(welcome(second, source, 42));
}

TEST_F(SessionsTest, ABatchThatBuildsOnALostOneAsksForAHello) {
  RankSource source(kChannel, hello_of("a"), {});
  ASSERT_TRUE(welcome(greet(source), source, 42));
  (void)batch_of(source, 1, "forward");  // lost on its way, and with it the names
  const std::string behind = batch_of(source, 2, "backward");
  EXPECT_FALSE(receive(behind).has_value());
  EXPECT_TRUE(is_told_to_greet_again());
  EXPECT_EQ(sessions_.counts().messages_malformed, 1U);
}

TEST_F(SessionsTest, AByeIsAnsweredAndEndsTheSession) {
  RankSource source(kChannel, hello_of("a"), {});
  ASSERT_TRUE(welcome(greet(source), source, 42));
  const auto message = receive(agent::encode_bye(kChannel, true));
  EXPECT_EQ(std::get<ByeMessage>(*message).source, 42);
  EXPECT_TRUE(std::get<ByeMessage>(*message).finished);
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<agent::Bye>(answers_[0].body));
  EXPECT_EQ(sessions_.counts().sessions, 0U);
}

TEST_F(SessionsTest, ASourceHasOneSessionTheOneThatSaidHelloLast) {
  RankSource source(kChannel, hello_of("a"), {}), again(kChannel + 1, hello_of("a"), {});
  ASSERT_TRUE(welcome(greet(source), source, 42));
  ASSERT_TRUE(welcome(greet(again), again, 42));
  EXPECT_EQ(sessions_.counts().sessions, 1U);
  const auto ack = sessions_.answer(core::AckInfo{.source = 42, .committed_seq = 5});
  ASSERT_TRUE(ack.has_value());
  EXPECT_EQ(agent::decode(ack->bytes)->channel, kChannel + 1);
}

TEST_F(SessionsTest, SourcesShareWhatMayBeOnItsWay) {
  const auto window_of = [&](std::uint32_t channel) {
    RankSource source(channel, hello_of("source" + std::to_string(channel)), {});
    const auto out = sessions_.answer(WelcomeReply{greet(source), {.source = channel + 1}});
    return std::get<agent::Welcome>(agent::decode(out->bytes)->body).window_records;
  };
  EXPECT_EQ(window_of(0), limits::kWindowRecords);
  for (std::uint32_t channel = 1; channel < 9; ++channel) (void)window_of(channel);
  EXPECT_EQ(window_of(9), 13'107U);
  for (std::uint32_t channel = 10; channel < 4999; ++channel) (void)window_of(channel);
  EXPECT_EQ(window_of(4999), 128U);
}

TEST_F(SessionsTest, WhatIsBeyondTheCreditIsNotTaken) {
  RankSource source(kChannel, hello_of("a"), {});
  const SessionId session = greet(source);
  (void)sessions_.answer(WelcomeReply{session, {.source = 42}});
  EXPECT_TRUE(source.on_welcome({.window_records = limits::kWindowRecords}));
  // One that counts no credit: what it would do is said here, since the agent's own code would not.
  wire::Envelope envelope;
  const auto send = [&](std::uint64_t first_seq) {
    EXPECT_TRUE(envelope.ParseFromString(batch_of(source, 1)));
    envelope.mutable_batch()->set_first_seq(first_seq);
    return receive(envelope.SerializeAsString()).has_value();
  };
  EXPECT_TRUE(send(1));
  EXPECT_TRUE(send(limits::kWindowRecords));
  EXPECT_FALSE(send(limits::kWindowRecords + 1));
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_EQ(sessions_.counts().batches_over_credit, 1U);
  ASSERT_TRUE(sessions_.answer(core::AckInfo{.source = 42, .committed_seq = 1}).has_value());
  EXPECT_TRUE(send(limits::kWindowRecords + 1));
  // With nothing on its way one batch is taken, whatever its number: a sender may have lost many.
  ASSERT_TRUE(
      sessions_.answer(core::AckInfo{.source = 42, .committed_seq = limits::kWindowRecords + 1}).has_value());
  EXPECT_TRUE(send(10 * limits::kWindowRecords));
  EXPECT_FALSE(send(10 * limits::kWindowRecords + 1));
}

TEST_F(SessionsTest, WhatIsNoMessageIsCounted) {
  EXPECT_FALSE(receive("\xff\xff").has_value());
  agent::Hello nameless = hello_of("a");
  nameless.run = "";
  RankSource source(kChannel, nameless, {});
  EXPECT_FALSE(receive(source.hello()).has_value());
  EXPECT_FALSE(is_told_to_greet_again());
  EXPECT_EQ(sessions_.counts().messages_malformed, 1U);
  EXPECT_EQ(sessions_.counts().hellos_refused, 1U);
}

TEST_F(SessionsTest, WhatIsTooLargeIsNotEvenRead) {
  RankSource source(kChannel, hello_of("a"), {});
  std::string message = source.hello();
  message.resize(limits::kMaxMessageBytes + 1, '\0');
  EXPECT_FALSE(receive(message).has_value());
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_EQ(sessions_.counts().messages_too_large, 1U);
  EXPECT_EQ(sessions_.counts().messages_malformed, 0U);
}

TEST_F(SessionsTest, TheStagesOfAHelloAreBounded) {
  agent::Hello longest = hello_of("a");
  longest.stages = {{std::string(limits::kMaxNameBytes, 's'), "parent", "sync"}};
  EXPECT_TRUE(receive(RankSource(kChannel, longest, {}).hello()).has_value());
  agent::Hello longer = hello_of("b");
  longer.stages = {{"stage", std::string(limits::kMaxNameBytes + 1, 'p'), "sync"}};
  EXPECT_FALSE(receive(RankSource(kChannel, longer, {}).hello()).has_value());
  agent::Hello more = hello_of("c");
  more.stages.resize(limits::kMaxNamesPerRecord + 1, {"stage", "parent", "sync"});
  EXPECT_FALSE(receive(RankSource(kChannel, more, {}).hello()).has_value());
  EXPECT_EQ(sessions_.counts().hellos_refused, 2U);
}

TEST_F(SessionsTest, SilenceCountsOnlyWhileSomebodyListens) {
  RankSource source(kChannel, hello_of("a"), {});
  ASSERT_TRUE(welcome(greet(source), source, 42));
  now_ += 100'000;
  sessions_.drop_silent(now_, now_ - 1000);
  EXPECT_EQ(sessions_.counts().sessions, 1U);
  sessions_.drop_silent(now_, 0);
  EXPECT_EQ(sessions_.counts().sessions, 0U);
}

const std::string kKey(40, '1'), kOtherKey(40, '2');

TEST_F(SessionsTest, AKeyThatIsNotAllowedIsRefusedWhateverItSays) {
  allow_only({{kOtherKey, "", {}}});
  RankSource source(kChannel, hello_of("a"), {});
  for (const std::string& user : {std::string(), kKey, kOtherKey.substr(1)}) {
    user_ = user;
    EXPECT_FALSE(receive(source.hello()).has_value());
    EXPECT_THAT(reason(), HasSubstr("allow-list"));
    EXPECT_FALSE(receive(agent::encode_bye(kChannel, true)).has_value());
    EXPECT_THAT(reason(), HasSubstr("allow-list"));
  }
  EXPECT_EQ(sessions_.counts().messages_not_allowed, 6U);
  EXPECT_EQ(sessions_.counts().sessions, 0U);
  user_ = kOtherKey;
  EXPECT_TRUE(receive(source.hello()).has_value());
}

TEST_F(SessionsTest, AnEmptyListAllowsNobody) {
  allow_only({});
  RankSource source(kChannel, hello_of("a"), {});
  EXPECT_FALSE(receive(source.hello()).has_value());
}

TEST_F(SessionsTest, ATiedKeyDeliversItsRunsAlone) {
  allow_only({{kKey, "", {"job", "other"}}});
  user_ = kKey;
  RankSource source(kChannel, hello_of("a"), {});
  EXPECT_TRUE(receive(source.hello()).has_value());
  agent::Hello foreign = hello_of("b");
  foreign.run = "secret";
  RankSource intruder(kChannel + 1, foreign, {});
  EXPECT_FALSE(receive(intruder.hello()).has_value());
  EXPECT_THAT(reason(), HasSubstr("may not deliver the run secret"));
  EXPECT_EQ(sessions_.counts().hellos_not_allowed, 1U);
  EXPECT_EQ(sessions_.counts().hellos_refused, 1U);
  EXPECT_EQ(sessions_.counts().sessions, 1U);
}

TEST_F(SessionsTest, ARevokedKeyIsCutOffInTheMiddleOfItsSession) {
  allow_only({{kKey, "", {}}, {kOtherKey, "", {}}});
  user_ = kOtherKey;
  RankSource stays(kChannel + 1, hello_of("b"), {});
  ASSERT_TRUE(welcome(greet(stays), stays, 43));
  user_ = kKey;
  RankSource source(kChannel, hello_of("a"), {});
  ASSERT_TRUE(welcome(greet(source), source, 42));
  allow_only({{kOtherKey, "", {}}});
  EXPECT_THAT(reason(), HasSubstr("allow-list"));  // told at once
  EXPECT_EQ(answers_[0].channel, kChannel);
  EXPECT_FALSE(receive(batch_of(source, 1)).has_value());
  EXPECT_EQ(sessions_.counts().messages_not_allowed, 1U);
  EXPECT_EQ(sessions_.counts().items, 0U);
  EXPECT_FALSE(sessions_.answer(core::AckInfo{.source = 42}).has_value());
  user_ = kOtherKey;
  EXPECT_TRUE(receive(batch_of(stays, 1)).has_value());
}

TEST_F(SessionsTest, ATieThatNoLongerHoldsTheRunEndsItsSession) {
  allow_only({{kKey, "", {}}});
  user_ = kKey;
  RankSource source(kChannel, hello_of("a"), {});
  ASSERT_TRUE(welcome(greet(source), source, 42));
  allow_only({{kKey, "", {"other"}}});
  EXPECT_THAT(reason(), HasSubstr("may not deliver the run job"));
  EXPECT_EQ(sessions_.counts().sessions, 0U);
  EXPECT_FALSE(receive(batch_of(source, 1)).has_value());
  allow_only({{kKey, "", {"other", "job"}}});
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_TRUE(receive(source.hello()).has_value());
}

}  // namespace
}  // namespace laggard::ingest
