#include "daemon/serve/query_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/value.h"
#include "daemon/serve/export.h"
#include "daemon/serve/query_error.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

using test::kNow;

constexpr core::UnixMs kLater = kNow + 1000;

class QueryServiceTest : public testing::Test {
 protected:
  QueryServiceTest() {
    test::add_job(store_);
    const auto run = test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2]));
    run->live_attempts[1] = std::make_shared<core::AttemptView>(test::live_view(store_.runs["job"][1]));
    snapshot_ = test::snapshot_of({run});
  }

  int status_of(const std::function<void()>& query) {
    try {
      query();
    } catch (const QueryError& error) {
      return error.status();
    }
    return 200;
  }

  test::FakeStore store_;
  test::FakeHistory history_{store_};
  std::shared_ptr<const core::Snapshot> snapshot_;
  std::vector<std::string> closed_;
  QueryService service_{test::collector_with([this] { return snapshot_; }, &closed_)};
};

TEST_F(QueryServiceTest, StatusTellsOfTheCollector) {
  EXPECT_EQ(service_.status(), Json::parse(R"({
    "version": "0.1.0", "collector_id": "c0ffee", "ingest": "tcp://127.0.0.1:17600",
    "started_unix_ms": 1700000040000, "now_unix_ms": 1700000100000, "runs": 1,
    "counters": {"messages_malformed": 3},
    "storage": {"path": "/data/laggard.db", "bytes": 4096, "wal_bytes": 512, "free_bytes": 1000000,
                "problem": null, "unstored": 0, "waiting_ms": 0}})"));
}

TEST_F(QueryServiceTest, NothingIsAnsweredBeforeTheFirstSnapshot) {
  snapshot_ = nullptr;
  EXPECT_FALSE(service_.ready());
  EXPECT_EQ(status_of([&] { service_.runs(); }), 503);
  EXPECT_EQ(status_of([&] { service_.ranks({.run = "job"}, history_); }), 503);
}

TEST_F(QueryServiceTest, RunsAreBrief) {
  EXPECT_EQ(service_.runs()["runs"][0], Json::parse(R"({
    "run": "job", "state": "running", "attempt": 2, "attempts": [1, 2], "world_size": 4, "expected": 4,
    "reporting": 4, "silent": 0, "last_step": 8, "last_step_state": "open",
    "first_received_unix_ms": 1700000050000, "last_received_unix_ms": 1700000100000, "age_ms": 0,
    "closed": false})"));
}

TEST_F(QueryServiceTest, ARunWithoutAnAttemptIsAllNull) {
  auto empty = std::make_shared<core::RunView>();
  empty->name = "new";
  snapshot_ = test::snapshot_of({});
  auto snapshot = std::make_shared<core::Snapshot>(*snapshot_);
  snapshot->runs = {empty};
  snapshot_ = snapshot;
  const Json brief = service_.runs()["runs"][0];
  EXPECT_EQ(brief["run"], "new");
  EXPECT_TRUE(brief["state"].is_null());
  EXPECT_TRUE(brief["last_step"].is_null());
}

TEST_F(QueryServiceTest, TheStatusScreenShowsTheSettledStepAndWhatTheNewestWaitsFor) {
  const Json run = service_.run({.run = "job"});
  EXPECT_EQ(run["newest"]["step"], 8);
  EXPECT_EQ(run["newest"]["slowest_of_partial"], true);
  EXPECT_EQ(run["waiting_for"], Json::parse("[2, 3]"));
  EXPECT_EQ(run["settled"]["step"], 7);
  EXPECT_EQ(run["settled"]["slowest_rank"], 1);
  EXPECT_EQ(run["settled"]["slowest_of_partial"], false);
  EXPECT_EQ(run["settled"]["culprit"], Json::parse(R"({"rank": 1, "own_excess_ms": 30.0, "stage": "compute",
    "stage_exclusive": false, "stage_excess_ms": 30.0})"));
  EXPECT_EQ(run["settled"]["wall"], Json::parse(R"({"present": 4, "min_ms": 100.0, "median_ms": 100.0,
    "mean_ms": 102.5, "max_ms": 110.0, "max_rank": 1, "min_rank": 0})"));
  EXPECT_EQ(run["history"], Json::parse(R"([{"step": 7, "state": "complete", "wall_max_ms": 110.0,
    "slowest_rank": 1, "near_tie": false, "culprit_rank": 1}])"));
  EXPECT_EQ(run["steps_by_state"],
            Json::parse(R"({"open": 1, "complete": 1, "partial": 0, "late_completed": 0})"));
  const Json& stages = run["settled"]["stages"];
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0]["stage"], "all_reduce");
  EXPECT_EQ(stages[0]["kind"], "sync");
  EXPECT_EQ(stages[0]["slowest_ms"], 18.0);
  EXPECT_EQ(stages[0]["others_max_ms"], 40.0);
  EXPECT_EQ(stages[1]["stage"], "compute");
  EXPECT_EQ(stages[1]["spread"]["max_ms"], 90.0);
  EXPECT_EQ(run["counters"], Json::parse(R"({"messages_malformed": 3})"));
}

TEST_F(QueryServiceTest, LinesAreNullUntilAnAgentHasSaidThem) {
  core::AttemptView view = test::live_view(store_.runs["job"][2]);
  snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, view)});
  const Json unsaid = service_.run({.run = "job"});
  ASSERT_TRUE(unsaid.contains("lines"));
  EXPECT_TRUE(unsaid["lines"].is_null());
  view.lines = core::LineTotals{.accepted = 20, .foreign = 3, .rejected = 2, .pending_tail = 1};
  snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, view)});
  EXPECT_EQ(service_.run({.run = "job"})["lines"],
            Json::parse(R"({"accepted": 20, "foreign": 3, "rejected": 2, "pending_tail": 1})"));
}

TEST_F(QueryServiceTest, LossesAreListedAndThoseBeyondTheListCounted) {
  core::RunView view = *test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2]));
  view.losses = {{.rank = 1, .host = "node1", .origin = "api", .dropped = 2, .ranges = {{4, 5}}}};
  view.unlisted_losses = {.sources = 3, .dropped = 6};
  snapshot_ = test::snapshot_of({std::make_shared<core::RunView>(view)});
  const Json run = service_.run({.run = "job"});
  EXPECT_EQ(run["losses"], Json::parse(R"([{"rank": 1, "host": "node1", "origin": "api", "dropped": 2,
    "ranges": [{"first_seq": 4, "last_seq": 5}]}])"));
  EXPECT_EQ(run["unlisted_losses"], Json::parse(R"({"sources": 3, "dropped": 6})"));
}

TEST_F(QueryServiceTest, ASilentRankIsNamedWithItsLastStepAndAge) {
  core::AttemptView view = test::live_view(store_.runs["job"][2]);
  view.ranks[2].last_received = kNow - 25'000;  // its last step is 7, the newest is 8
  view.ranks[3] = {.rank = 3};                  // never seen
  snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, view)});
  const Json run = service_.run({.run = "job"});
  EXPECT_EQ(run["reporting"], 2);
  EXPECT_EQ(run["silent"], 2);
  EXPECT_EQ(run["silent_ranks"], Json::parse(R"([
    {"rank": 2, "last_step": 7, "last_received_unix_ms": 1700000075000, "age_ms": 25000, "host": "node2",
     "reported": true},
    {"rank": 3, "last_step": null, "last_received_unix_ms": null, "age_ms": null, "host": null,
     "reported": false}])"));
  const Json ranks = service_.ranks({.run = "job"}, history_)["ranks"];
  EXPECT_EQ(ranks[1]["state"], "live");
  EXPECT_EQ(ranks[2]["state"], "silent");
  EXPECT_EQ(ranks[3]["state"], "never");
}

TEST_F(QueryServiceTest, SilentRanksThatNobodyListsAreCounted) {
  core::AttemptView view = test::live_view(store_.runs["job"][2]);
  view.expected = view.world_size = 5000;
  view.ranks.push_back({.rank = 4});  // of the 4996 that were never seen, this one is listed
  snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, view)});
  const Json run = service_.run({.run = "job"});
  EXPECT_EQ(run["silent"], 4996);
  EXPECT_EQ(run["reporting"], 4);
  EXPECT_EQ(run["silent_ranks"].size(), 1U);
  const Json ranks = service_.ranks({.run = "job"}, history_);
  EXPECT_EQ(ranks["ranks"].size(), 5U);
  EXPECT_EQ(ranks["more"], true);
}

TEST_F(QueryServiceTest, RanksHaveTheirSettingsInStrictJson) {
  const Json answer = service_.ranks({.run = "job"}, history_);
  EXPECT_EQ(answer["world_size"], 4);
  EXPECT_EQ(answer["more"], false);
  ASSERT_EQ(answer["ranks"].size(), 4U);
  EXPECT_EQ(answer["ranks"][0]["settings"],
            Json::parse(R"({"lr": "NaN", "type": "config", "world_size": 4})"));
  EXPECT_TRUE(answer["ranks"][1]["settings"].is_null());
  EXPECT_EQ(answer["ranks"][1]["last_wall_ms"], 99.0);
  EXPECT_EQ(answer["ranks"][1]["last_step"], 8);
}

TEST_F(QueryServiceTest, WhatIsNotThereIs404) {
  EXPECT_EQ(status_of([&] { service_.run({.run = "none"}); }), 404);
  EXPECT_EQ(status_of([&] { service_.run({.run = "job", .attempt = 3}); }), 404);
  EXPECT_EQ(status_of([&] { service_.step({.run = "job"}, 99, history_); }), 404);
  EXPECT_EQ(status_of([&] { service_.report({.runs = {"job@3"}}, history_, kLater); }), 404);
  EXPECT_EQ(status_of([&] { service_.close_run("none"); }), 404);
  EXPECT_THAT(closed_, testing::IsEmpty());
}

TEST_F(QueryServiceTest, StepsAreAscendingAndLimitedFromEitherEnd) {
  const auto steps_of = [&](StepsAsked asked) {
    const Json answer = service_.steps({.run = "job", .attempt = 1}, asked, history_);
    std::vector<Step> steps;
    for (const Json& step : answer["steps"]) steps.push_back(step["step"].get<Step>());
    return std::pair(steps, answer["more"].get<bool>());
  };
  EXPECT_EQ(steps_of({}), std::pair(std::vector<Step>{1, 2, 3}, false));
  EXPECT_EQ(steps_of({.limit = 2}), std::pair(std::vector<Step>{1, 2}, true));
  EXPECT_EQ(steps_of({.limit = 2, .newest = true}), std::pair(std::vector<Step>{2, 3}, true));
  EXPECT_EQ(steps_of({.window = {.from = 2, .to = 2}}), std::pair(std::vector<Step>{2}, false));
}

TEST_F(QueryServiceTest, AStepShowsEveryRankAndItsOwnTime) {
  const Json step = service_.step({.run = "job"}, 7, history_);
  ASSERT_EQ(step["ranks"].size(), 4U);
  EXPECT_EQ(step["ranks"][1], Json::parse(R"({"rank": 1, "wall_ms": 110.0, "wall_state": "valid",
    "own_ms": 90.0, "stream": {"compute": 90.0, "all_reduce": 18.0}, "host": {}, "calls": {},
    "counts": {"samples": 16}, "invalid": []})"));
  EXPECT_EQ(step["own"]["median_ms"], 60.0);
}

TEST_F(QueryServiceTest, AStepThatIsNotStoredYetIsAnsweredFromMemory) {
  store_.runs["job"][2].views.erase(8);
  store_.runs["job"][2].records.erase(8);
  const Json step = service_.step({.run = "job"}, 8, history_);
  EXPECT_EQ(step["state"], "open");
  EXPECT_EQ(step["present"], 2);
  EXPECT_EQ(step["stages"][0]["stage"], "compute");
  EXPECT_TRUE(step["ranks"].is_null());
  const Json steps = service_.steps({.run = "job"}, {.limit = 1, .newest = true}, history_);
  ASSERT_EQ(steps["steps"].size(), 1U);
  EXPECT_EQ(steps["steps"][0]["step"], 8);
  EXPECT_EQ(steps["more"], true);
  // The first page ends before it, a window without it does not show it.
  EXPECT_EQ(service_.steps({.run = "job"}, {.limit = 1}, history_)["steps"][0]["step"], 7);
  EXPECT_EQ(service_.steps({.run = "job"}, {.window = {.to = 7}}, history_)["steps"].size(), 1U);
}

TEST_F(QueryServiceTest, ALiveStepBehindStepsThatAreNotStoredYetWaitsForThem) {
  const auto steps_of = [&](const core::AttemptView& view) {
    snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, view)});
    const Json answer = service_.steps({.run = "job"}, {.window = {.from = 8}}, history_);
    std::vector<Step> steps;
    for (const Json& step : answer["steps"]) steps.push_back(step["step"].get<Step>());
    return steps;
  };
  const auto at = [](const core::StepView& view, Step step) {
    auto moved = std::make_shared<core::StepView>(view);
    moved->breakdown.step = step;
    return moved;
  };
  test::FakeAttempt& attempt = store_.runs["job"][2];
  core::AttemptView view = test::live_view(attempt);
  const core::StepView settled = *view.settled, newest = *view.newest;
  attempt.views.erase(8);  // stored are the steps up to 7
  view.settled = at(settled, 9);
  view.newest = at(newest, 10);
  EXPECT_THAT(steps_of(view), testing::IsEmpty())
      << "8 is somewhere, and would be lost to whoever goes on at 11";
  view.settled = at(settled, 8);
  EXPECT_THAT(steps_of(view), testing::ElementsAre(8)) << "9 is somewhere";
  view.newest = at(newest, 9);
  EXPECT_THAT(steps_of(view), testing::ElementsAre(8, 9));
  EXPECT_EQ(service_.step({.run = "job"}, 9, history_)["step"], 9);
  attempt.views.clear();  // nothing is stored: 7 must be known to show 8 and 9
  view.steps_by_state = {{core::StepState::open, 1}, {core::StepState::complete, 2}};
  EXPECT_THAT(steps_of(view), testing::IsEmpty());
  view.steps_by_state = {{core::StepState::open, 1}, {core::StepState::complete, 1}};
  EXPECT_THAT(steps_of(view), testing::ElementsAre(8, 9));
}

TEST_F(QueryServiceTest, ARankThatCameBetweenTheSummaryAndTheRecordsIsNotMissing) {
  test::FakeAttempt& attempt = store_.runs["job"][2];
  test::FakeHistory history(store_, [&] { store_.add(attempt, 8, 3, 103, {{"compute", 63}}); });
  const Json step = service_.step({.run = "job"}, 8, history);
  EXPECT_EQ(step["present"], 3);
  EXPECT_EQ(step["missing"], Json::parse("[2]"));
  EXPECT_EQ(step["missing_count"], 1);
  EXPECT_EQ(step["slowest_rank"], 3);
  EXPECT_EQ(step["ranks"].size(), 3U);
}

TEST_F(QueryServiceTest, AnAttemptThatIsNotStoredYetIsNotAnsweredFromTheOneBefore) {
  store_.runs["job"].erase(2);
  EXPECT_EQ(service_.step({.run = "job"}, 8, history_)["attempt"], 2);
  EXPECT_EQ(status_of([&] { service_.ranks({.run = "job"}, history_); }), 404);
  EXPECT_EQ(status_of([&] { service_.stages({.run = "job"}, {}, history_, kLater); }), 404);
  EXPECT_EQ(status_of([&] { service_.report({.runs = {"job"}}, history_, kLater); }), 404);
  EXPECT_EQ(status_of([&] { Export(service_, {.run = "job"}, history_); }), 404);
  EXPECT_EQ(service_.ranks({.run = "job", .attempt = 1}, history_)["attempt"], 1);
}

TEST_F(QueryServiceTest, TheNewerOfMemoryAndStorageIsShown) {
  test::FakeAttempt& attempt = store_.runs["job"][2];
  core::StepView older = attempt.views[7];
  older.state = core::StepState::open;
  attempt.views[7] = older;
  EXPECT_EQ(service_.step({.run = "job"}, 7, history_)["state"], "complete");
  EXPECT_EQ(service_.steps({.run = "job"}, {}, history_)["steps"][0]["state"], "complete");
  store_.add(attempt, 8, 2, 103, {{"compute", 63}});
  store_.settle(attempt, 8, core::StepState::open);
  EXPECT_EQ(service_.step({.run = "job"}, 8, history_)["present"], 3);
  EXPECT_EQ(service_.steps({.run = "job"}, {}, history_)["steps"][1]["present"], 3);
}

TEST_F(QueryServiceTest, AnAttemptOfWhichNothingIsStoredIsAnsweredFromMemory) {
  const auto run = test::run_view("new", {1}, test::live_view(store_.runs["job"][2]));
  auto view = std::make_shared<core::AttemptView>(*run->newest);
  view->attempt = 1;
  run->newest = view;
  run->live_attempts = {{1, view}};
  snapshot_ = test::snapshot_of({run});
  EXPECT_EQ(service_.step({.run = "new"}, 8, history_)["present"], 2);
  EXPECT_EQ(service_.steps({.run = "new"}, {}, history_)["steps"].size(), 2U);
}

TEST_F(QueryServiceTest, AnotherAttemptThatRanksStillWriteToIsNamed) {
  const core::AttemptView newest = test::live_view(store_.runs["job"][2]);
  auto older = std::make_shared<core::AttemptView>(test::live_view(store_.runs["job"][1]));
  const auto others = [&](std::optional<std::uint32_t> asked = std::nullopt) {
    const auto run = test::run_view("job", {1, 2}, newest);
    run->live_attempts[1] = std::make_shared<core::AttemptView>(*older);
    snapshot_ = test::snapshot_of({run});
    return service_.run({.run = "job", .attempt = asked})["other_attempts"];
  };
  EXPECT_EQ(others(),
            Json::parse(R"([{"attempt": 1, "reporting": 2, "last_received_unix_ms": 1700000100000}])"));
  EXPECT_EQ(others(1)[0]["attempt"], 2);
  older->ranks[0].live = false;  // its source is gone
  EXPECT_EQ(others()[0]["reporting"], 1);
  older->ranks[1].last_received = kNow - 50'001;  // before attempt 2 began
  older->silent_after_ms = 60'000;
  EXPECT_TRUE(others().empty());
  older->ranks[1].last_received = kNow;
  older->ranks[1].finished = true;  // its source writes to attempt 2 now
  EXPECT_TRUE(others().empty());
}

TEST_F(QueryServiceTest, ARankThatGoesOnWritingToAnOlderAttemptIsLiveThere) {
  auto older = std::make_shared<core::AttemptView>(test::live_view(store_.runs["job"][1]));
  older->ranks[1].last_received = kNow - 50'001;  // before attempt 2 began
  older->silent_after_ms = 60'000;
  const auto run = test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2]));
  run->live_attempts[1] = older;
  snapshot_ = test::snapshot_of({run});
  EXPECT_EQ(service_.run({.run = "job"})["other_attempts"][0]["reporting"], 1);
  const Json status = service_.run({.run = "job", .attempt = 1});
  EXPECT_EQ(status["reporting"], 1);
  ASSERT_EQ(status["silent_ranks"].size(), 1U);
  EXPECT_EQ(status["silent_ranks"][0]["rank"], 1);
}

TEST_F(QueryServiceTest, AbsentNullNegativeAndNotFiniteStayDifferent) {
  test::FakeAttempt& attempt = store_.runs["job"][2];
  const double nan = std::numeric_limits<double>::quiet_NaN();
  store_.add(attempt, 9, 0, nan, {{"compute", kNull}, {"all_reduce", -1}});
  store_.add(attempt, 9, 1, 100, {{"compute", kAbsent}, {"all_reduce", 0.0}});
  store_.settle(attempt, 9, core::StepState::partial);
  const Json ranks = service_.step({.run = "job"}, 9, history_)["ranks"];
  EXPECT_EQ(ranks[0]["stream"], Json::parse(R"({"compute": null, "all_reduce": null})"));
  EXPECT_EQ(ranks[0]["wall_state"], "non-finite");
  EXPECT_EQ(ranks[0]["invalid"], Json::parse(R"([{"field": "wall_ms", "state": "non-finite"},
                            {"field": "cuda_stream_ms.all_reduce", "state": "negative"}])"));
  EXPECT_EQ(ranks[1]["stream"], Json::parse(R"({"all_reduce": 0.0})"));
  EXPECT_TRUE(ranks[1]["invalid"].empty());
}

TEST_F(QueryServiceTest, AStepWhoseRecordsAreGoneKeepsItsSummary) {
  store_.runs["job"][2].records.erase(7);
  const Json step = service_.step({.run = "job"}, 7, history_);
  EXPECT_TRUE(step["ranks"].is_null());
  EXPECT_EQ(step["slowest_rank"], 1);
}

TEST_F(QueryServiceTest, AReportNamesRunsAndOlderAttempts) {
  const Json report =
      service_.report({.runs = {"job@1"}, .window = {.from = 1, .to = 3}, .profile = {}}, history_, kLater);
  ASSERT_EQ(report["runs"].size(), 1U);
  const Json& run = report["runs"][0];
  EXPECT_EQ(run["run"], "job");
  EXPECT_EQ(run["attempt"], 1);
  EXPECT_EQ(run["steps"], 3);
  EXPECT_EQ(run["max_rank_wall_s"], 0.052);
  EXPECT_EQ(report["match"]["checked"], false);
  EXPECT_EQ(report["notes"].size(), 2U);
}

TEST_F(QueryServiceTest, StagesReadTheWindowAloneAndSayWhatTheyLeaveOut) {
  test::FakeAttempt& attempt = store_.runs["job"][1];
  store_.add(attempt, 4, 0, 50, {{"compute", 40}});
  const auto left_out = [&](core::Window window) {
    return service_.stages({.run = "job", .attempt = 1}, window, history_, kLater)["left_out"];
  };
  EXPECT_EQ(left_out({}), Json::parse(R"({"aside": [], "incomplete": [4], "no_wall": [],
                                          "before": 0, "after": 0})"));
  EXPECT_EQ(left_out({.from = 2, .to = 3}), Json::parse(R"({"aside": [], "incomplete": [], "no_wall": [],
                                                            "before": null, "after": null})"));
}

TEST_F(QueryServiceTest, AReportThatIsNotDoneInTimeSaysWhatToDo) {
  core::UnixMs now = kNow;
  Collector collector = test::collector_with([this] { return snapshot_; });
  collector.now = [&] { return now; };
  const QueryService service(collector);
  const core::UnixMs until = service.report_deadline();
  EXPECT_EQ(service.report({.runs = {"job@1"}}, history_, until)["runs"].size(), 1U);
  test::FakeHistory slow(store_, [&] { now = until + 1; });
  try {
    service.report({.runs = {"job@1"}}, slow, until);
    ADD_FAILURE() << "it had no limit";
  } catch (const QueryTimeout& timeout) {
    EXPECT_THAT(timeout.what(), testing::HasSubstr("ask for fewer runs"));
  }
  now = kNow;
  EXPECT_THROW(service.stages({.run = "job", .attempt = 1}, {}, slow, until), QueryTimeout);
}

TEST_F(QueryServiceTest, ACancelledQueryEndsAtItsNextStep) {
  test::FakeHistory slow(store_, [this] { service_.cancel(); });
  EXPECT_THROW(service_.report({.runs = {"job"}}, slow, kLater), QueryTimeout);
  EXPECT_THROW(service_.ranks({.run = "job"}, history_), QueryTimeout);
}

TEST_F(QueryServiceTest, ClosingNamesTheRun) {
  EXPECT_EQ(service_.close_run("job"), Json::parse(R"({"run": "job", "state": "ended"})"));
  EXPECT_THAT(closed_, testing::ElementsAre("job"));
}

TEST_F(QueryServiceTest, BytesThatAreNoTextDoNotBreakTheJson) {
  const std::string text = dump({{"name", "a\xff\xc3"}});
  EXPECT_EQ(text, "{\"name\":\"a\xef\xbf\xbd\xef\xbf\xbd\"}");
  EXPECT_FALSE(Json::parse(text, nullptr, false).is_discarded());
}

TEST_F(QueryServiceTest, JsonThatNestsTooDeepIsNotRead) {
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']')).has_value());
  EXPECT_FALSE(parse_json(std::string(65, '[') + std::string(65, ']')).has_value());
  EXPECT_TRUE(parse_json("\"" + std::string(100, '[') + "\"").has_value())
      << "brackets in a text do not nest";
}

TEST_F(QueryServiceTest, DoublesComeBackAsTheSameBits) {
  const double odd = 15479.411385953426;
  EXPECT_EQ(Json::parse(dump(measured(odd))).get<double>(), odd);
}

}  // namespace
}  // namespace laggard::serve
