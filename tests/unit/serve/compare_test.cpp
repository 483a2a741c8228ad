// POST /api/v1/compare: from its body to its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/serve/api.h"
#include "daemon/serve/query_error.h"
#include "daemon/serve/report_body.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

using test::kNow;

TEST(CompareBody, EverythingIsRead) {
  const CompareAsked asked = parse_compare_body(R"({"base": ["a", "b@2"], "new": ["c"], "from": 11, "to": 30,
                             "profile": {"may_differ": ["lr"]}})");
  EXPECT_THAT(asked.base, testing::ElementsAre("a", "b@2"));
  EXPECT_THAT(asked.newer, testing::ElementsAre("c"));
  EXPECT_EQ(asked.window.from, 11);
  EXPECT_EQ(asked.window.to, 30);
  EXPECT_EQ(asked.profile, (Profile{.may_differ = {"lr"}}));
}

TEST(CompareBody, WhatIsWrongIsSaid) {
  std::string many = R"({"new": ["x"], "base": ["a")";
  for (int i = 0; i < 63; ++i) many += R"(,"a")";
  for (const auto& [body, status, message] : std::vector<std::tuple<std::string, int, const char*>>{
           {"", 400, "not JSON"},
           {R"({"new": ["c"]})", 400, "base must name at least one run"},
           {R"({"base": ["a"], "new": []})", 400, "new must name at least one run"},
           {R"({"base": "a", "new": ["c"]})", 400, "list of texts"},
           {R"({"base": ["a"], "new": ["c"], "runs": []})", 400, "no key \"runs\""},
           {R"({"base": ["a"], "new": ["c"], "from": 2, "to": 1})", 400, "larger"},
           {many + "]}", 422, "at most 64 runs"}}) {
    try {
      parse_compare_body(body);
      ADD_FAILURE() << body;
    } catch (const QueryError& error) {
      EXPECT_EQ(error.status(), status) << body;
      EXPECT_THAT(error.what(), testing::HasSubstr(message)) << body;
    }
  }
}

/// Runs a1, a2, b1 and b2 of one rank and three steps each; `forward` is what they differ in.
class CompareTest : public testing::Test {
 protected:
  CompareTest() {
    std::vector<std::shared_ptr<const core::RunView>> views;
    for (const auto& [name, forward] :
         std::map<std::string, double>{{"a1", 100}, {"a2", 102}, {"b1", 120}, {"b2", 122}}) {
      test::FakeAttempt& attempt = store_.attempt(name, 1, 1);
      for (Step step = 1; step <= 3; ++step) {
        store_.add(attempt, step, 0, 50 + forward, {{"forward", forward}, {"optimizer", 50}});
        store_.settle(attempt, step, core::StepState::complete);
      }
      attempt.row.first_received = kNow - 1000;
      attempt.row.last_received = kNow - 900;
      views.push_back(test::run_view(name, {1}, test::live_view(attempt)));
    }
    snapshot_ = test::snapshot_of(std::move(views));
  }

  Json compare(std::vector<std::string> base, std::vector<std::string> newer, core::Window window = {}) {
    return service_.compare({.base = std::move(base), .newer = std::move(newer), .window = window}, history_,
                            kNow + 1000);
  }
  /// The sentence of a request that is refused.
  std::string refused(std::vector<std::string> base, std::vector<std::string> newer, int status) {
    try {
      compare(std::move(base), std::move(newer));
    } catch (const QueryError& error) {
      EXPECT_EQ(error.status(), status);
      return error.what();
    }
    ADD_FAILURE() << "it was answered";
    return "";
  }

  test::FakeStore store_;
  test::FakeHistory history_{store_};
  std::shared_ptr<const core::Snapshot> snapshot_;
  QueryService service_{test::collector_with([this] { return snapshot_; })};
};

TEST_F(CompareTest, TheAnswerAsDocumented) {
  const Json answer = compare({"a1", "a2"}, {"b1", "b2@1"});
  EXPECT_EQ(answer["match"]["pass"], true);
  EXPECT_EQ(answer["causes"],
            Json::parse(R"([{"stage": "forward", "clock": "stream", "difference_s": 0.02}])"));
  Json wall = answer["rows"][0];
  // Welch's interval of 151, 152 +- 1.414 has 2 degrees of freedom: 20 +- 4.302653 x 1.414214.
  EXPECT_NEAR(wall["low"].get<double>(), 0.013915131, 1e-9);
  EXPECT_NEAR(wall["high"].get<double>(), 0.026084869, 1e-9);
  EXPECT_NEAR(wall["spread"].get<double>(), 0.001414214, 1e-9);
  EXPECT_NEAR(wall["difference_percent"].get<double>(), 100 * 20 / 151.0, 1e-9);
  for (const char* key : {"low", "high", "spread", "difference_percent"}) wall.erase(key);
  EXPECT_EQ(wall, Json::parse(R"({
    "figure": "max_rank_wall", "stage": null, "parent": null, "depth": 0, "exclusive": false, "kind": null,
    "clock": null, "unit": "s", "comparable": true, "base": 0.151, "new": 0.171, "difference": 0.02,
    "estimate": "run means", "hodges_lehmann": 0.02, "rank_p": null, "finding": "beyond", "cause": false,
    "present": null, "of": null, "base_runs": [0.15, 0.152], "new_runs": [0.17, 0.172]})"));
  EXPECT_EQ(answer["rows"][1]["figure"], "throughput");
  EXPECT_TRUE(answer["rows"][1]["base"].is_null());  // nobody said the batch's size
  EXPECT_EQ(answer["rows"][5]["stage"], "forward");
  EXPECT_EQ(answer["rows"][5]["cause"], true);
  EXPECT_EQ(answer["rows"][5]["of"], 12);
  EXPECT_EQ(answer["counts"],
            Json::parse(R"([{"name": "samples", "unit": "count", "base": 48.0, "new": 48.0}])"));
  EXPECT_EQ(answer["method"]["run_to_run_measured"], true);
  EXPECT_TRUE(answer["method"]["blocks_base"].is_null());
  EXPECT_EQ(answer["order"],
            Json::parse(R"({"known_from": "unknown", "pattern": null, "drift": "unknown"})"));
  EXPECT_EQ(answer["base"][1]["run"], "a2");
  EXPECT_EQ(answer["new"][0]["steps"], 3);
  EXPECT_EQ(answer["conclusions"].size(), 4U);
}

TEST_F(CompareTest, EveryRowOfAFailedMatchIsMarked) {
  store_.add(store_.runs["b2"][1], 4, 0, 172, {{"forward", 122}, {"optimizer", 50}});
  const Json answer = compare({"a1", "a2"}, {"b1", "b2"});
  EXPECT_EQ(answer["match"]["pass"], false);
  for (const Json& row : answer["rows"]) EXPECT_EQ(row["comparable"], false);
  EXPECT_TRUE(answer["causes"].empty());
}

TEST_F(CompareTest, TheWindowIsOfEveryRun) {
  const Json answer = compare({"a1"}, {"b1"}, {.from = 2, .to = 3});
  EXPECT_EQ(answer["base"][0]["steps"], 2);
  EXPECT_EQ(answer["new"][0]["window"]["chosen"], "asked");
  EXPECT_EQ(answer["method"]["run_to_run_measured"], false);
}

TEST_F(CompareTest, AnAttemptIsNamedOnceAndMustBeThere) {
  EXPECT_THAT(refused({"a1", "a2"}, {"b1", "a2@1"}, 400),
              testing::HasSubstr("\"a2\", attempt 1, is named twice"));
  EXPECT_THAT(refused({"a1"}, {"b7"}, 404), testing::HasSubstr("no run \"b7\""));
  EXPECT_THAT(refused({"a1@2"}, {"b1"}, 404), testing::HasSubstr("no attempt 2"));
}

TEST_F(CompareTest, ItIsLimitedInTimeAsAReportIs) {
  Collector collector = test::collector_with([this] { return snapshot_; });
  core::UnixMs now = kNow;
  collector.now = [&] { return now; };
  const QueryService service(collector);
  const core::UnixMs until = service.report_deadline();
  test::FakeHistory slow(store_, [&] { now = until + 1; });
  EXPECT_THROW(service.compare({.base = {"a1"}, .newer = {"b1"}}, slow, until), QueryTimeout);
}

}  // namespace
}  // namespace laggard::serve
