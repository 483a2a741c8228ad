#include "daemon/serve/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "daemon/serve/json.h"
#include "daemon/serve/query_error.h"
#include "daemon/serve/report_body.h"
#include "daemon/serve/url.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

TEST(Url, PathAndQueryAreDecoded) {
  const auto url = parse_url("/api/v1/runs/a%2Fb%20c+d?run=x+y%26z&flag&=nothing");
  ASSERT_TRUE(url.has_value());
  EXPECT_THAT(url->path, testing::ElementsAre("api", "v1", "runs", "a/b c+d"));
  EXPECT_THAT(url->query, testing::ElementsAre(testing::Pair("flag", ""), testing::Pair("run", "x y&z")));
}

TEST(Url, WhatCannotBeReadIsRefused) {
  for (const char* target : {"", "*", "api", "http://x/", "/%", "/%4", "/%zz", "/%-1", "/a?b=%", "/a?%g0=1"})
    EXPECT_FALSE(parse_url(target).has_value()) << target;
}

TEST(ReportBody, EverythingIsRead) {
  const ReportAsked asked = parse_report_body(R"({"runs": ["a", "b@2"], "from": 11, "to": null, "profile": {
    "parents": {"x": "y"}, "kinds": {"x": "sync"}, "exclusive_names": {"y": "rest"}, "stage_order": ["x"],
    "ratios": [{"name": "padding %", "numerator": "valid", "denominator": "slots", "complement": true}],
    "may_differ": ["rank"], "match_counts": ["frames"]}})");
  EXPECT_THAT(asked.runs, testing::ElementsAre("a", "b@2"));
  EXPECT_EQ(asked.window.from, 11);
  EXPECT_EQ(asked.window.to, std::nullopt);
  EXPECT_EQ(asked.profile, (Profile{.parents = {{"x", "y"}},
                                    .kinds = {{"x", "sync"}},
                                    .exclusive_names = {{"y", "rest"}},
                                    .stage_order = {"x"},
                                    .ratios = {{"padding %", "valid", "slots", true}},
                                    .may_differ = {"rank"},
                                    .match_counts = {"frames"}}));
}

TEST(ReportBody, WhatIsWrongIsSaid) {
  const std::vector<std::pair<const char*, const char*>> bodies = {
      {"", "not JSON"},
      {"[]", "must be an object"},
      {R"({})", "at least one run"},
      {R"({"runs": "a"})", "list of texts"},
      {R"({"runs": [1]})", "must be a text"},
      {R"({"runs": ["a"], "form": 1})", "no key \"form\""},
      {R"({"runs": ["a"], "from": 1.5})", "step number"},
      {R"({"runs": ["a"], "from": 9223372036854775808})", "step number"},
      {R"({"runs": ["a"], "from": 2, "to": 1})", "larger"},
      {R"({"runs": ["a"], "profile": {"kinds": {"x": "wait"}}})", "the kinds are"},
      {R"({"runs": ["a"], "profile": {"ratios": [{"name": "x"}]}})", "needs \"numerator\""},
  };
  for (const auto& [body, message] : bodies) {
    try {
      parse_report_body(body);
      ADD_FAILURE() << body;
    } catch (const QueryError& error) {
      EXPECT_EQ(error.status(), 400) << body;
      EXPECT_THAT(error.what(), testing::HasSubstr(message)) << body;
    }
  }
}

TEST(ReportBody, ManyKeysAreReadAtOnce) {
  std::string kinds;
  for (int i = 0; i < 100'000; ++i) kinds += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":"work")";
  const auto begun = std::chrono::steady_clock::now();
  const ReportAsked asked = parse_report_body(R"({"runs":["a"],"profile":{"kinds":{)" + kinds + "}}}");
  EXPECT_EQ(asked.profile.kinds.size(), 100'000U);
  // A reader that looks at every key for every key takes ten times as long.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3));
}

class ApiTest : public testing::Test {
 protected:
  ApiTest() {
    test::add_job(store_);
    snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2]))});
  }

  Answer answer(Request request) {
    Reply reply = api_.handle(request);
    if (auto* stored = std::get_if<StoredAnswer>(&reply)) {
      return guarded([&] { return (*stored)(history_); });
    }
    if (auto* answered = std::get_if<Answer>(&reply)) return *answered;
    ADD_FAILURE() << request.target << " is a stream";
    return {};
  }
  Answer get(const std::string& target) { return answer({.method = "GET", .target = target}); }
  static std::string error_code(const Answer& answer) {
    return Json::parse(answer.body)["error"]["code"].get<std::string>();
  }

  test::FakeStore store_;
  test::FakeHistory history_{store_};
  std::shared_ptr<const core::Snapshot> snapshot_;
  Counters counters_{};
  std::vector<std::string> closed_;
  QueryService service_{test::collector_with([this] { return snapshot_; }, &closed_)};
  const Access access_{.token = "sixteen-characters", .token_file = "/data/admin.token"};
  Api api_{service_, counters_, access_};
};

TEST_F(ApiTest, EveryDocumentedRequestHasAnAnswer) {
  for (const char* target :
       {"/api/v1/status", "/api/v1/runs", "/api/v1/runs/job", "/api/v1/runs/job?attempt=2",
        "/api/v1/runs/job/steps?from=1&to=9&limit=5&newest=1", "/api/v1/runs/job/steps/7",
        "/api/v1/runs/job/ranks", "/api/v1/runs/job/stages?from=1", "/metrics", "/metrics?ranks=1",
        "/-/healthy", "/-/ready"})
    EXPECT_EQ(get(target).status, 200U) << target << " " << get(target).body;
  EXPECT_EQ(answer({.method = "POST", .target = "/api/v1/report", .body = R"({"runs": ["job"]})"}).status,
            200U);
  // There is one attempt alone, and a comparison takes it once: more is in compare_test.cpp.
  const std::string twice = R"({"base": ["job"], "new": ["job"]})";
  EXPECT_EQ(answer({.method = "POST", .target = "/api/v1/compare", .body = twice}).status, 400U);
  EXPECT_TRUE(std::holds_alternative<ExportAsked>(api_.handle({"GET", "/api/v1/runs/job/export"})));
  EXPECT_TRUE(std::holds_alternative<EventsAsked>(api_.handle({"GET", "/api/v1/events?run=job"})));
}

TEST_F(ApiTest, LiveAnswersNeedNoStorage) {
  for (const char* target : {"/api/v1/status", "/api/v1/runs", "/api/v1/runs/job", "/metrics", "/-/ready"})
    EXPECT_TRUE(std::holds_alternative<Answer>(api_.handle({"GET", target}))) << target;
}

TEST_F(ApiTest, AReportsBodyIsNotReadWhereLiveAnswersAreGiven) {
  const Request wrong{.method = "POST", .target = "/api/v1/report", .body = "no JSON"};
  EXPECT_TRUE(std::holds_alternative<StoredAnswer>(api_.handle(wrong)));
  EXPECT_EQ(answer(wrong).status, 400U);
}

TEST_F(ApiTest, ErrorsSayWhatIsWrong) {
  const std::vector<std::tuple<const char*, unsigned, const char*>> cases = {
      {"/", 404, "not_found"},
      {"/api/v2/status", 404, "not_found"},
      {"/api/v1/runs/none", 404, "no_such_run"},
      {"/api/v1/runs/none/steps", 404, "no_such_run"},
      {"/api/v1/runs/job?attempt=9", 404, "no_such_attempt"},
      {"/api/v1/runs/job/steps/99", 404, "no_such_step"},
      {"/api/v1/runs/job?attempt=0", 400, "bad_request"},
      {"/api/v1/runs/job?attempt=-1", 400, "bad_request"},
      {"/api/v1/runs/job?attempt=99999999999", 400, "bad_request"},
      {"/api/v1/runs/job?atempt=1", 400, "bad_request"},
      {"/api/v1/runs/job/steps/x", 400, "bad_request"},
      {"/api/v1/runs/job/steps?from=3&to=1", 400, "bad_request"},
      {"/api/v1/runs/job/steps?limit=0", 400, "bad_request"},
      {"/api/v1/runs/job/steps?newest=2", 400, "bad_request"},
      {"/metrics?ranks=2", 400, "bad_request"},
      {"/metrics?ranks=yes", 400, "bad_request"},
      {"/api/v1/events?run=none", 404, "no_such_run"},
      {"/api/v1/runs/job/steps?limit=10001", 422, "too_much"},
      {"/api/v1/runs/%zz", 400, "bad_request"},
  };
  for (const auto& [target, status, code] : cases) {
    const Answer found = get(target);
    EXPECT_EQ(found.status, status) << target;
    EXPECT_EQ(error_code(found), code) << target;
  }
}

TEST_F(ApiTest, AdviceStandsBesideTheMessage) {
  const Json error = Json::parse(get("/api/v1/runs/none").body)["error"];
  EXPECT_EQ(error["message"], "there is no run \"none\"");
  EXPECT_EQ(error["advice"], "GET /api/v1/runs lists them");
  EXPECT_FALSE(Json::parse(get("/api/v1/runs/job?attempt=0").body)["error"].contains("advice"));
}

TEST_F(ApiTest, TheWrongMethodIsToldTheRightOne) {
  const Answer answered = answer({.method = "POST", .target = "/api/v1/runs"});
  EXPECT_EQ(answered.status, 405U);
  EXPECT_EQ(answered.allow, "GET, HEAD");
  EXPECT_EQ(answer({.method = "GET", .target = "/api/v1/report"}).allow, "POST");
  EXPECT_EQ(answer({.method = "BREW", .target = "/metrics"}).status, 405U);
  EXPECT_EQ(answer({.method = "HEAD", .target = "/metrics"}).status, 200U);
}

TEST_F(ApiTest, AWebPageOfAnotherSiteCannotCloseARun) {
  const Request close{.method = "POST",
                      .target = "/api/v1/runs/job/close",
                      .host = "127.0.0.1:17601",
                      .authorization = "Bearer sixteen-characters"};
  for (const char* origin :
       {"http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:17601"}) {
    Request request = close;
    request.origin = origin;
    EXPECT_EQ(error_code(answer(request)), "foreign_origin") << origin;
  }
  EXPECT_THAT(closed_, testing::IsEmpty());
  Request own = close;
  own.origin = "http://127.0.0.1:17601";
  EXPECT_EQ(answer(own).status, 200U);
  EXPECT_EQ(answer(close).status, 200U) << "no browser, no origin";
  EXPECT_THAT(closed_, testing::ElementsAre("job", "job"));
  // With TLS its own pages have another origin.
  Access tls = access_;
  tls.tls = true;
  const Api over_tls(service_, counters_, tls);
  EXPECT_EQ(error_code(std::get<Answer>(over_tls.handle(own))), "foreign_origin");
  own.origin = "https://127.0.0.1:17601";
  EXPECT_TRUE(std::holds_alternative<StoredAnswer>(over_tls.handle(own)));
}

TEST_F(ApiTest, WhatChangesSomethingNeedsTheToken) {
  Request close{.method = "POST", .target = "/api/v1/runs/job/close"};
  EXPECT_EQ(answer(close).status, 401U);
  close.authorization = "Bearer sixteen-characterx";
  EXPECT_EQ(answer(close).status, 401U);
  EXPECT_THAT(closed_, testing::IsEmpty());
  close.authorization = "Bearer sixteen-characters";
  EXPECT_EQ(answer(close).status, 200U);
  EXPECT_EQ(answer({.method = "DELETE", .target = "/api/v1/runs/job"}).status, 401U);
}

TEST_F(ApiTest, FromOtherMachinesEverythingButHealthNeedsTheToken) {
  const Api open(service_, counters_,
                 {.loopback_only = false, .token = access_.token, .token_file = access_.token_file});
  const auto status = [&](const char* method, const char* target, const char* authorization) {
    const Reply reply = open.handle({.method = method, .target = target, .authorization = authorization});
    const auto* answered = std::get_if<Answer>(&reply);
    return answered == nullptr ? 200U : answered->status;
  };
  for (const auto& [method, target] :
       std::vector<std::pair<const char*, const char*>>{{"GET", "/metrics"},
                                                        {"HEAD", "/metrics"},
                                                        {"GET", "/api/v1/status"},
                                                        {"GET", "/api/v1/runs/job/export"},
                                                        {"GET", "/api/v1/events"},
                                                        {"POST", "/api/v1/report"},
                                                        {"POST", "/api/v1/compare"},
                                                        {"POST", "/api/v1/runs/job/close"},
                                                        {"DELETE", "/api/v1/runs/job"},
                                                        {"GET", "/api/v1/runs/none"},
                                                        {"GET", "/nothing"},
                                                        {"GET", "/%zz"},
                                                        {"BREW", "/-/healthy"}}) {
    EXPECT_EQ(status(method, target, ""), 401U) << method << target;
    EXPECT_NE(status(method, target, "Bearer sixteen-characters"), 401U) << method << target;
  }
  for (const char* target : {"/-/healthy", "/-/ready"}) EXPECT_EQ(status("GET", target, ""), 200U) << target;
}

TEST_F(ApiTest, ANameThatOnlyResolvesToThisMachineIsRefused) {
  const auto status_for = [&](const char* host) {
    return answer({.method = "GET", .target = "/api/v1/runs", .host = host}).status;
  };
  for (const char* host : {"localhost", "LocalHost:17601", "127.0.0.1", "127.3.2.1:80", "[::1]:17601", ""})
    EXPECT_EQ(status_for(host), 200U) << host;
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", "10.0.0.1", "127.evil"})
    EXPECT_EQ(status_for(host), 403U) << host;
  const Api open(service_, counters_, {.loopback_only = false});
  const Reply reply = open.handle({.method = "GET", .target = "/-/healthy", .host = "collector.example"});
  EXPECT_EQ(std::get<Answer>(reply).status, 200U);
}

TEST_F(ApiTest, BeforeTheFirstSnapshotItIsHealthyAndNotReady) {
  snapshot_ = nullptr;
  EXPECT_EQ(get("/-/healthy").status, 200U);
  EXPECT_EQ(get("/-/ready").status, 503U);
  EXPECT_EQ(error_code(get("/metrics")), "not_ready");
}

TEST_F(ApiTest, AQueryThatTakesTooLongIs503) {
  test::FakeHistory slow(store_, [] { throw QueryTimeout("the query took longer than 30 s"); });
  const Reply reply = api_.handle({.method = "GET", .target = "/api/v1/runs/job/stages"});
  const Answer answered = guarded([&] { return std::get<StoredAnswer>(reply)(slow); });
  EXPECT_EQ(answered.status, 503U);
  EXPECT_EQ(error_code(answered), "time_limit");
}

}  // namespace
}  // namespace laggard::serve
