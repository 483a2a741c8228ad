// `laggard status --watch`, until the collector refuses something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/client/stub_collector.h"

namespace laggard::client {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The stream ends, and the request that goes on after event 4 is refused: that ends a watch.
const std::map<std::string, StubCollector::Answer> kWatched = {
    {"GET /api/v1/status", {200, R"({"collector_id": "c", "started_unix_ms": 1})"}},
    {"GET /api/v1/runs/j", {200, R"({"run": "j", "state": "running"})"}},
    {"GET /api/v1/events?run=j",
     {200,
      "id: 4\nevent: step\ndata: {\"run\": \"j\", \"attempt\": 1, \"step\": 17, \"state\": \"complete\", "
      "\"present\": 4, \"expected\": 4, \"wall_max_ms\": 15416.3, \"slowest_rank\": 1, \"culprit_rank\": "
      "null}\n\n"
      "event: gap\ndata: {}\n\n"}},
    {"GET /api/v1/events?run=j&after=4",
     {400, R"({"error": {"code": "bad_request", "message": "that is enough"}})"}}};

TEST(Watch, OnATerminalThatCannotRedrawPrintsOneScreenAfterTheOther) {
  const StubCollector collector(kWatched);
  const Outcome outcome = ask(collector, {"status", "j", "--watch"}, {.present = true});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  const std::size_t second = outcome.out.find("\n\nrun ");
  ASSERT_NE(second, std::string::npos) << outcome.out;
  EXPECT_THAT(outcome.out, StartsWith("run "));
  EXPECT_EQ(outcome.out.substr(0, second + 2), outcome.out.substr(second + 2));
}

TEST(Watch, TheLineAboveAWatchedScreenIsWrapped) {
  const StubCollector collector(kWatched);
  const Outcome outcome =
      ask(collector, {"status", "j", "--watch"}, {.present = true, .redraws = true, .columns = 40});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_THAT(outcome.out,
              HasSubstr("laggard status j at\x1b[K\r\n" + collector.address() + ", Ctrl-C ends\x1b[K\r\n"));
}

TEST(Watch, InAPipePrintsALineForEachStep) {
  const StubCollector collector(kWatched);
  const Outcome outcome = ask(collector, {"status", "j", "--watch"});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_EQ(outcome.out, "step 17  complete  4/4 ranks  wall 15416.300 ms  slowest rank 1  culprit rank -\n");
  EXPECT_THAT(outcome.err, HasSubstr("steps were missed here"));
  EXPECT_THAT(outcome.err, HasSubstr("trying again"));
}

TEST(Watch, GoesOnWhenTheRunIsGoneForAWhileOrTheCollectorHasTrouble) {
  const auto error = [](unsigned status, const std::string& code, const std::string& message) {
    return StubCollector::Answer{
        status, R"({"error": {"code": ")" + code + R"(", "message": ")" + message + R"("}})"};
  };
  for (const bool screen : {false, true}) {
    auto answers = kWatched;
    StubCollector::Answer& refusal = answers.at("GET /api/v1/events?run=j&after=4");
    refusal.before = {error(404, "no_such_run", "there is no run"),
                      error(503, "storage", "the disk is full")};
    const StubCollector collector(answers);
    const Outcome outcome =
        ask(collector, {"status", "j", "--watch"}, {.present = screen, .redraws = screen, .columns = 200});
    EXPECT_EQ(outcome.code, ExitCode::usage);
    const std::string& said = screen ? outcome.out : outcome.err;
    EXPECT_THAT(said, HasSubstr("there is no run; laggard runs lists them"));
    EXPECT_THAT(said, HasSubstr("the disk is full"));
  }
}

TEST(Watch, AScreenEndsWithTheRunAndLeavesItsLastStatus) {
  auto answers = kWatched;
  StubCollector::Answer& status = answers.at("GET /api/v1/runs/j");
  status.before = {status};
  status.body = R"({"run": "j", "state": "ended"})";
  const Outcome outcome =
      ask(StubCollector(answers), {"status", "j", "--watch"}, {.present = true, .redraws = true});
  EXPECT_EQ(outcome.code, ExitCode::fine);
  EXPECT_THAT(outcome.out.substr(outcome.out.rfind('\x1b')), HasSubstr("j ended"));
}

TEST(Watch, MissesNoStepOfARunThatWasNotThereYet) {
  auto answers = kWatched;
  StubCollector::Answer& status = answers.at("GET /api/v1/runs/j");
  status.before = {{404, R"({"error": {"code": "no_such_run", "message": "there is no run"}})"}};
  answers["GET /api/v1/events?run=j&after=0"] = {
      200, "event: gap\ndata: {}\n\n" + answers.at("GET /api/v1/events?run=j").body};
  answers.erase("GET /api/v1/events?run=j");
  const Outcome outcome = ask(StubCollector(answers), {"status", "j", "--watch"});
  EXPECT_THAT(outcome.out, StartsWith("step 17  complete"));
  EXPECT_THAT(outcome.err, HasSubstr("Waiting for it"));
}

TEST(Watch, ATieNamesNobodyInTheLineOfAStep) {
  auto answers = kWatched;
  std::string& events = answers.at("GET /api/v1/events?run=j").body;
  events.replace(events.find("\"slowest_rank\""), 0, "\"near_tie\": true, ");
  const StubCollector collector(answers);
  EXPECT_THAT(ask(collector, {"status", "j", "--watch"}).out, HasSubstr("slowest rank tie  culprit"));
}

}  // namespace
}  // namespace laggard::client
