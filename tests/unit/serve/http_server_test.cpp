#include "daemon/serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/serve/json.h"
#include "tests/support/http_client.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

using test::HttpClient;
using test::HttpResponse;

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    test::add_job(store_);
    publish({test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2]))});
  }

  void start(HttpOptions options = {}) {
    options.listen = "127.0.0.1:0";
    server_ = std::make_unique<HttpServer>(options, service_, [this] {
      return std::make_unique<test::FakeHistory>(store_, [this] { before_records_(); });
    });
    server_->start();
  }

  void publish(std::vector<std::shared_ptr<const core::RunView>> runs) {
    const std::lock_guard lock(mutex_);
    snapshot_ = test::snapshot_of(std::move(runs));
  }

  /// Publishes a snapshot in which the events of these numbers are the newest of "job".
  void settle_all(std::uint64_t first, std::uint64_t last) {
    core::AttemptView view;
    for (std::uint64_t event = first; event <= last; ++event)
      view.history.push_back(
          {.step = static_cast<Step>(event), .state = core::StepState::complete, .event = event});
    publish({test::run_view("job", {1}, view)});
  }

  /// Waits, by asking, until the server has seen that this is so.
  void wait_until(const std::function<bool()>& condition) {
    HttpClient client(server_->address());
    for (int i = 0; i < 100'000 && !condition(); ++i) client.get("/-/healthy");
    ASSERT_TRUE(condition());
  }

  test::FakeStore store_;
  std::function<void()> before_records_ = [] {};
  std::mutex mutex_;
  std::shared_ptr<const core::Snapshot> snapshot_;
  QueryService service_{test::collector_with([this] {
    const std::lock_guard lock(mutex_);
    return snapshot_;
  })};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, OneConnectionAnswersManyRequests) {
  start();
  HttpClient client(server_->address());
  EXPECT_EQ(Json::parse(client.get("/api/v1/runs").body)["runs"][0]["run"], "job");
  EXPECT_EQ(client.get("/api/v1/runs/job/steps/7").status, 200U);
  EXPECT_EQ(client.get("/nothing").status, 404U);
  const HttpResponse head = client.request("HEAD", "/api/v1/runs");
  EXPECT_EQ(head.status, 200U);
  EXPECT_NE(head.fields.at("content-length"), "0");
  EXPECT_EQ(client.request("POST", "/api/v1/report", R"({"runs": ["job"]})").status, 200U);
  EXPECT_EQ(client.request("DELETE", "/api/v1/runs").fields.at("allow"), "GET, HEAD");
  EXPECT_EQ(server_->counters().connections, 1U);
}

TEST_F(HttpServerTest, RequestsSentAtOnceAreAnsweredInOrder) {
  start();
  HttpClient client(server_->address());
  client.send(
      "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\nGET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "healthy\n");
  EXPECT_EQ(client.read_response().body, "ready\n");
}

TEST_F(HttpServerTest, AConnectionEndsWhenTheClientSaysSo) {
  start();
  HttpClient client(server_->address());
  EXPECT_EQ(client.request("GET", "/-/healthy", "", "Connection: close\r\n").status, 200U);
  EXPECT_TRUE(client.is_closed());
  HttpClient old(server_->address());
  old.send("GET /-/healthy HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_response().body, "healthy\n");
  EXPECT_TRUE(old.is_closed());
}

TEST_F(HttpServerTest, ABodyIsAskedForWhenTheClientWaitsForThat) {
  start();
  HttpClient client(server_->address());
  client.send(
      "POST /api/v1/report HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
      "17\r\n\r\n");
  EXPECT_EQ(client.read_header().status, 100U);
  client.send(R"({"runs": ["job"]})");
  EXPECT_EQ(client.read_response().status, 200U);
}

TEST_F(HttpServerTest, GarbageIsRefusedAndCounted) {
  start();
  for (const char* garbage :
       {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: minus\r\n\r\n"}) {
    HttpClient client(server_->address());
    client.send(garbage);
    EXPECT_EQ(client.read_response().status, 400U) << garbage;
    EXPECT_TRUE(client.is_closed());
  }
  EXPECT_EQ(server_->counters().requests_broken, 5U);
}

TEST_F(HttpServerTest, WhatIsTooLargeIsRefused) {
  start();
  HttpClient header(server_->address());
  header.send("GET / HTTP/1.1\r\nX: " + std::string(limits::kMaxHttpHeaderBytes, 'x') + "\r\n\r\n");
  EXPECT_EQ(header.read_response().status, 431U);
  HttpClient body(server_->address());
  const std::string large(limits::kMaxHttpBodyBytes + 1, 'x');
  EXPECT_EQ(body.request("POST", "/api/v1/report", large).status, 413U);
  EXPECT_TRUE(body.is_closed());
}

TEST_F(HttpServerTest, AHalfFinishedRequestIsNotWaitedForForEver) {
  start({.read_timeout = std::chrono::milliseconds(20)});
  HttpClient silent(server_->address());
  EXPECT_TRUE(silent.is_closed());
  HttpClient half(server_->address());
  half.send("GET / HTTP/1.1\r\nHost: loc");
  EXPECT_TRUE(half.is_closed());
  HttpClient gone(server_->address());
  gone.send("POST /api/v1/report HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf");
  EXPECT_TRUE(gone.is_closed());
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosed) {
  start({.idle_timeout = std::chrono::milliseconds(20)});
  HttpClient client(server_->address());
  client.get("/-/healthy");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitAreRefusedAndCounted) {
  start();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (std::size_t i = 0; i < limits::kMaxHttpConnections; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->address()));
    ASSERT_EQ(clients.back()->get("/-/healthy").status, 200U);
  }
  HttpClient one_more(server_->address());
  EXPECT_EQ(one_more.read_response().status, 503U);
  EXPECT_TRUE(one_more.is_closed());
  EXPECT_EQ(server_->counters().connections_refused, 1U);
  EXPECT_EQ(clients.front()->get("/-/healthy").status, 200U);
}

TEST_F(HttpServerTest, ReadersOfEventsLeaveRoomForOthers) {
  start({.connections = 6});
  std::vector<std::unique_ptr<HttpClient>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(std::make_unique<HttpClient>(server_->address()));
    readers.back()->send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_EQ(readers.back()->read_header().status, 200U);
  }
  wait_until([&] { return server_->counters().event_clients == 3U; });
  HttpClient one_more(server_->address());
  EXPECT_EQ(one_more.get("/api/v1/events").status, 503U);
  EXPECT_EQ(one_more.get("/-/healthy").status, 200U);
  EXPECT_EQ(server_->counters().event_clients_refused, 1U);
  readers.pop_back();
  wait_until([&] { return server_->counters().event_clients == 2U; });
  one_more.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(one_more.read_header().status, 200U);
}

TEST_F(HttpServerTest, SlowQueriesDelayNoLiveAnswer) {
  std::latch both_run(2), may_end(1);
  before_records_ = [&] {
    both_run.count_down();
    may_end.wait();
  };
  start({.workers = 2});
  HttpClient slow(server_->address()), slower(server_->address()), quick(server_->address());
  slow.send("GET /api/v1/runs/job/stages HTTP/1.1\r\nHost: localhost\r\n\r\n");
  slower.send("GET /api/v1/runs/job/export HTTP/1.1\r\nHost: localhost\r\n\r\n");
  both_run.wait();
  EXPECT_EQ(quick.get("/metrics").status, 200U);
  EXPECT_EQ(quick.get("/api/v1/runs/job").status, 200U);
  may_end.count_down();
  EXPECT_EQ(slow.read_response().status, 200U);
  EXPECT_EQ(slower.read_response().status, 200U);
}

TEST_F(HttpServerTest, AnExportStreamsInChunksAndTheConnectionGoesOn) {
  test::FakeAttempt& attempt = store_.attempt("long", 1, 1);
  for (Step step = 1; step <= 5000; ++step) store_.add(attempt, step, 0, 100, {{std::string(100, 's'), 1}});
  publish({test::run_view("long", {1}, test::live_view(attempt))});
  start();
  HttpClient client(server_->address());
  const HttpResponse all = client.get("/api/v1/runs/long/export");
  EXPECT_EQ(all.fields.at("content-type"), "application/x-ndjson");
  EXPECT_EQ(std::ranges::count(all.body, '\n'), 5000);
  EXPECT_GT(all.body.size(), 2 * limits::kExportChunkBytes);
  EXPECT_EQ(client.get("/api/v1/runs/none/export").status, 404U);
  HttpClient old(server_->address());
  old.send("GET /api/v1/runs/long/export HTTP/1.0\r\n\r\n");
  EXPECT_FALSE(old.read_header().fields.contains("transfer-encoding"));
}

TEST_F(HttpServerTest, AClientThatGoesDuringAnExportHarmsNobody) {
  test::FakeAttempt& attempt = store_.attempt("long", 1, 1);
  for (Step step = 1; step <= 5000; ++step) store_.add(attempt, step, 0, 100, {{std::string(1000, 's'), 1}});
  publish({test::run_view("long", {1}, test::live_view(attempt))});
  start();
  {
    HttpClient client(server_->address(), 4096);
    client.send("GET /api/v1/runs/long/export HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_header();
  }
  wait_until([&] { return server_->counters().connections == 1; });
}

TEST_F(HttpServerTest, EventsArriveAndAreFilteredByRun) {
  core::AttemptView view;
  publish({test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2])),
           test::run_view("other", {1}, view)});
  start();
  HttpClient all(server_->address()), other(server_->address());
  all.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(all.read_header().fields.at("content-type"), "text/event-stream");
  other.send("GET /api/v1/events?run=other HTTP/1.1\r\nHost: localhost\r\n\r\n");
  other.read_header();
  all.read_chunk();
  other.read_chunk();
  settle_all(2, 2);
  server_->notify();
  EXPECT_THAT(all.read_chunks_until("\n\n"),
              testing::StartsWith("id: 2\nevent: step\ndata: {\"run\":\"job\""));
  view.history = {{.step = 1, .state = core::StepState::partial, .event = 3}};
  publish({test::run_view("other", {1}, view)});
  server_->notify();
  EXPECT_THAT(other.read_chunks_until("\n\n"), testing::StartsWith("id: 3\n"));
  EXPECT_EQ(server_->counters().event_clients, 2U);
}

TEST_F(HttpServerTest, AClientContinuesAfterTheEventItSawLast) {
  settle_all(1, 3);
  start();
  HttpClient client(server_->address());
  client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\n\r\n");
  client.read_header();
  const std::string text = client.read_chunks_until("id: 3\n");
  EXPECT_THAT(text, testing::HasSubstr("id: 2\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("id: 1\n")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("gap")));
}

TEST_F(HttpServerTest, AClientFromAnotherLifeOfTheCollectorIsToldOfTheGap) {
  start();
  HttpClient client(server_->address());
  client.send("GET /api/v1/events?after=999 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_header();
  EXPECT_EQ(client.read_chunk(), "event: gap\ndata: {}\n\n");
}

TEST_F(HttpServerTest, AQuietStreamIsKeptAlive) {
  start({.comment_every = std::chrono::milliseconds(10)});
  HttpClient client(server_->address());
  client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_header();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(client.read_chunk(), testing::StartsWith(":"));
}

TEST_F(HttpServerTest, SnapshotsWithoutNewsDoNotKeepAStreamSilent) {
  start({.comment_every = std::chrono::milliseconds(50)});
  HttpClient client(server_->address());
  client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_header();
  std::atomic<bool> stopping = false;
  std::thread snapshots([&] {
    HttpClient other(server_->address());
    while (!stopping) {
      server_->notify();
      other.get("/-/healthy");  // the server has come to this notification
    }
  });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(client.read_chunk(), testing::StartsWith(":"));
  stopping = true;
  snapshots.join();
}

TEST_F(HttpServerTest, AReaderOfEventsThatGoesIsForgotten) {
  start();
  {
    HttpClient client(server_->address());
    client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_chunk_after_header();
    EXPECT_EQ(server_->counters().event_clients, 1U);
  }
  wait_until([&] { return server_->counters().event_clients == 0; });
  EXPECT_EQ(server_->counters().event_clients_dropped, 0U);
}

TEST_F(HttpServerTest, AClientThatDoesNotReadIsDroppedAndCounted) {
  start();
  HttpClient slow(server_->address(), 2048);
  slow.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  slow.read_chunk_after_header();
  HttpClient other(server_->address());
  // What the kernel's buffers hold, and what the log remembers, are finite: some number of events is too
  // many.
  constexpr std::uint64_t kFarTooMany = 2'000'000;
  std::uint64_t event = 1;
  for (; server_->counters().event_clients_dropped == 0 && event < kFarTooMany;
       event += core::kHistoryPoints) {
    settle_all(event + 1, event + core::kHistoryPoints);
    server_->notify();
    other.get("/-/healthy");  // the server has come to this notification
  }
  EXPECT_EQ(server_->counters().event_clients_dropped, 1U);
  EXPECT_EQ(other.get("/-/healthy").status, 200U);
}

TEST_F(HttpServerTest, ATakenPortIsAnErrorThatSaysSo) {
  start();
  HttpOptions options;
  options.listen = server_->address();
  HttpServer second(options, service_, [] { return nullptr; });
  try {
    second.start();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(server_->address()));
  }
  EXPECT_THROW(HttpServer({.listen = "nowhere"}, service_, [] { return nullptr; }), Error);
}

TEST_F(HttpServerTest, StopsWhileClientsHang) {
  start();
  HttpClient idle(server_->address()), half(server_->address()), events(server_->address()),
      fresh(server_->address());
  idle.get("/-/healthy");
  half.send("POST /api/v1/report HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf");
  events.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  events.read_chunk_after_header();
  const auto began = std::chrono::steady_clock::now();
  server_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5)) << "less than any timeout";
  EXPECT_TRUE(idle.is_closed());
  EXPECT_TRUE(half.is_closed());
  EXPECT_THROW(events.read_chunk(), std::runtime_error);
  EXPECT_THROW(HttpClient(server_->address()).get("/-/healthy"), std::runtime_error);
  server_->stop();
}

TEST_F(HttpServerTest, StopsAQueryInProgressAtItsNextStep) {
  std::latch running(1), may_go_on(1);
  before_records_ = [&] {
    running.count_down();
    may_go_on.wait();
  };
  start();
  HttpClient client(server_->address());
  client.send("GET /api/v1/runs/job/stages HTTP/1.1\r\nHost: localhost\r\n\r\n");
  running.wait();
  auto stopped = std::async(std::launch::async, [&] { server_->stop(); });
  EXPECT_THROW(client.read_response(), std::runtime_error) << "connections are closed at once";
  may_go_on.count_down();
  stopped.get();
}

}  // namespace
}  // namespace laggard::serve
