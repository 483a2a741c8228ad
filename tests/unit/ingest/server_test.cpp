// The server's door, with the agent's own socket outside.
#include "daemon/ingest/server.h"

#include <gtest/gtest.h>

#include <chrono>

#include "agent/collector_link.h"
#include "agent/messages.h"
#include "daemon/base/error.h"
#include "daemon/keys/allow_list.h"
#include "daemon/keys/key.h"
#include "tests/unit/agent/temp_dir.h"

namespace laggard::ingest {
namespace {

using agent::CollectorLink;
using namespace std::chrono_literals;

constexpr auto kPatience = 60s;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    keys::change_allow_list(list_, [&](keys::AllowList& list) {
      return list.allow({allowed_.public_key, "", {}});
    });
  }
  std::unique_ptr<Server> start(bool secure = true) {
    std::optional<Security> security;
    if (secure) security = Security{collector_.secret_key, list_};
    auto server = std::make_unique<Server>(
        "tcp://127.0.0.1:0", "collector", queue_, [] { return 1'000'000; }, 100, security);
    server->start();
    return server;
  }
  keys::PeerKeys as(const keys::KeyPair& own) const { return {own, collector_.public_key}; }
  /// Waits for the first thing that happens to a connection.
  static std::optional<CollectorLink::Event> event_of(CollectorLink& link) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < limit) {
      if (const auto event = link.next_event()) return event;
      link.wait({}, 100ms);
    }
    return std::nullopt;
  }
  /// Waits for a condition while the link goes on: a peer that hangs up first was not refused, so it has to
  /// try again before that is counted.
  template <typename Condition>
  static bool becomes(CollectorLink& link, Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < limit) {
      (void)link.next_event();
      link.wait({}, 10ms);
    }
    return condition();
  }

  const test::TempDir dir_;
  const std::string list_ = dir_ / "allowed.jsonl";
  const keys::KeyPair collector_ = keys::make_key_pair(), allowed_ = keys::make_key_pair();
  Server::Queue queue_{1};
};

TEST_F(ServerTest, AnAllowedKeyGetsInAndAnotherDoesNot) {
  const auto server = start();
  CollectorLink allowed(server->address(), as(allowed_)),
      stranger(server->address(), as(keys::make_key_pair()));
  EXPECT_EQ(event_of(allowed), CollectorLink::Event::connected);
  EXPECT_EQ(event_of(stranger), CollectorLink::Event::refused);
  EXPECT_EQ(stranger.refusal(), CollectorLink::Refusal::key_not_allowed);
  EXPECT_TRUE(becomes(stranger, [&] { return server->connection_counts().handshakes_refused > 0; }));
}

TEST_F(ServerTest, ALinkWithoutAKeyAndOneForAnotherCollectorAreRefused) {
  const auto server = start();
  CollectorLink plain(server->address());
  EXPECT_EQ(event_of(plain), CollectorLink::Event::refused);
  EXPECT_TRUE(becomes(plain, [&] { return server->connection_counts().handshakes_refused > 0; }));
  const std::uint64_t before = server->connection_counts().handshakes_refused;
  CollectorLink lost(server->address(), keys::PeerKeys{allowed_, keys::make_key_pair().public_key});
  EXPECT_EQ(event_of(lost), CollectorLink::Event::refused);
  EXPECT_TRUE(becomes(lost, [&] { return server->connection_counts().handshakes_refused > before; }));
  EXPECT_EQ(server->counts().messages, 0U);
}

TEST_F(ServerTest, ALinkWithAKeyIsNotTakenInByAServerWithout) {
  const auto server = start(false);
  CollectorLink link(server->address(), as(allowed_));
  EXPECT_EQ(event_of(link), CollectorLink::Event::refused);
}

TEST_F(ServerTest, ARefusedLinkGetsInOnceItIsAllowed) {
  const keys::KeyPair late = keys::make_key_pair();
  const auto server = start();
  CollectorLink link(server->address(), as(late));
  ASSERT_EQ(event_of(link), CollectorLink::Event::refused);
  keys::change_allow_list(list_, [&](keys::AllowList& list) {
    return list.allow({late.public_key, "", {}});
  });
  EXPECT_EQ(event_of(link), CollectorLink::Event::connected);
  EXPECT_EQ(link.refusal(), CollectorLink::Refusal::none);
}

TEST_F(ServerTest, HandshakesAreAnsweredWhileTheEngineTakesNothing) {
  const auto server = start();
  CollectorLink first(server->address(), as(allowed_));
  ASSERT_EQ(event_of(first), CollectorLink::Event::connected);
  for (std::uint32_t channel = 1; channel <= 3; ++channel) {
    ASSERT_TRUE(first.is_ready());
    first.send(agent::encode_hello(channel, {.run = "job", .rank = channel, .source = {.id = "a"}}, {}));
  }
  // One is in the queue, one is held back; the third is not read.
  ASSERT_TRUE(becomes(first, [&] { return server->counts().messages == 2; }));
  CollectorLink second(server->address(), as(allowed_));
  EXPECT_EQ(event_of(second), CollectorLink::Event::connected);
  EXPECT_EQ(server->counts().messages, 2U);
}

TEST_F(ServerTest, WithoutAListItDoesNotStart) {
  std::filesystem::remove(list_);
  EXPECT_THROW(start(), Error);
}

}  // namespace
}  // namespace laggard::ingest
