// Command lines to exit codes and requests.
#include "client/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/client/stub_collector.h"

namespace laggard::client {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kNoRuns = R"({"runs": []})";

/// An address where nobody listens: the port was free a moment ago, and nobody else asks for it by number.
std::string closed_address() {
  namespace asio = boost::asio;
  asio::io_context io;
  const asio::ip::tcp::acceptor once(io, {asio::ip::make_address("127.0.0.1"), 0});
  return "http://127.0.0.1:" + std::to_string(once.local_endpoint().port());
}

TEST(App, HelpAndVersionAreFine) {
  const Outcome help = run_command({"--help"});
  EXPECT_EQ(help.code, ExitCode::fine);
  for (const char* group : {"While a job runs", "After a job", "Data in and out"}) {
    EXPECT_THAT(help.out, HasSubstr(group));
  }
  EXPECT_THAT(run_command({"--version"}).out, StartsWith("laggard "));
}

TEST(App, EveryCommandHasAnExample) {
  for (const char* command : {"runs", "status", "report", "compare", "steps", "step", "ranks", "stages",
                              "import", "export", "close", "keys", "run"}) {
    const Outcome help = run_command({command, "--help"});
    EXPECT_EQ(help.code, ExitCode::fine) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("Example: laggard ") + command));
  }
}

TEST(App, UsageIsTwo) {
  const std::vector<std::vector<std::string>> lines = {{},
                                                       {"nonsense"},
                                                       {"runs", "-o", "xml"},
                                                       {"runs", "extra"},
                                                       {"step", "job", "three"},
                                                       {"steps", "job", "--last", "0"},
                                                       {"report"},
                                                       {"compare"},
                                                       {"compare", "a"},
                                                       {"compare", "a,,b", "c"},
                                                       {"compare", "a", "b,"},
                                                       {"compare", "a", "b", "c"},
                                                       {"compare", "a", "b", "--fail-on", ""},
                                                       {"verdict", "a", "--fail-on", ""},
                                                       {"compare", "a", "b", "--fail-on", "much"},
                                                       {"compare", "a", "b", "--fail-on", "-3%"},
                                                       {"compare", "a", "b", "--fail-on", "nan"},
                                                       {"compare", "--plan", "0"},
                                                       {"compare", "--plan", "33"},
                                                       {"compare", "a", "b", "--plan", "4"},
                                                       {"--collector", "ftp://x", "runs"},
                                                       {"report", "job", "--profile", "/no/such/file"},
                                                       {"status", "job", "--watch", "-o", "csv"}};
  for (const auto& line : lines) {
    const Outcome outcome = run_command(line);
    EXPECT_EQ(outcome.code, ExitCode::usage) << testing::PrintToString(line);
    EXPECT_THAT(outcome.err, StartsWith("laggard: "));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(App, AJobIsOnlyStartedByACommandLineThatIsRight) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{"run"}, "which job? It stands behind --"},
      {{"run", "--"}, "which job? It stands behind --"},
      {{"run", "touch", "--no-create", "x"}, "behind --: laggard run -- touch ..."},
      {{"run", "touch", "--", "x"}, "behind --: laggard run -- touch ..."},
      {{"run", "--bogus", "--", "true"}, "--bogus"},
      {{"run", "--name", "--", "true"}, "--name"},
      {{"run", "--name", "llm@v2", "--", "true"}, "--name llm@v2 can be no run's: it holds an @"},
      {{"run", "--name", std::string(201, 'x'), "--", "true"}, "longer than 200 bytes"},
      {{"--collector", "ftp://x", "run", "--", "true"}, "no address of a collector"}};
  for (const auto& [line, why] : lines) {
    const Outcome outcome = run_command(line);
    EXPECT_EQ(outcome.code, ExitCode::usage) << testing::PrintToString(line);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
}

TEST(App, OnlyTheWordsOfAJobAreCutOff) {
  const Outcome help = run_command({"run", "--help"});
  EXPECT_EQ(help.code, ExitCode::fine);
  EXPECT_THAT(help.out, HasSubstr("-- PROGRAM"));
  const StubCollector collector({{"GET /api/v1/runs/--job", {.body = R"({"run": "--job"})"}}});
  EXPECT_EQ(ask(collector, {"status", "--", "--job"}).code, ExitCode::fine);
}

TEST(App, AWordThatIsNoCommandIsNamedWithThoseThatAreAlike) {
  EXPECT_EQ(run_command({"stat"}).err,
            "laggard: there is no command \"stat\"; did you mean status or step?\n"
            "laggard: laggard --help describes them.\n");
  EXPECT_THAT(run_command({"stes", "job"}).err, HasSubstr("\"stes\"; did you mean steps or step"));
  EXPECT_THAT(run_command({"frobnicate"}).err, HasSubstr("there are runs, status"));
  EXPECT_THAT(run_command({}).err, HasSubstr("which command? There are runs, status"));
  EXPECT_THAT(run_command({"--bogus"}).err, HasSubstr("there is no option \"--bogus\""));
}

TEST(App, NumbersOutOfRangeAreShortErrors) {
  for (const auto& line : std::vector<std::vector<std::string>>{{"steps", "job", "--last", "0"},
                                                                {"steps", "job", "--last", "10001"},
                                                                {"export", "job", "--attempt", "0"}}) {
    const Outcome outcome = run_command(line);
    EXPECT_EQ(outcome.code, ExitCode::usage);
    EXPECT_THAT(outcome.err, HasSubstr(line[2]));
    EXPECT_LT(outcome.err.size(), 120U) << outcome.err;
  }
}

TEST(App, ARangeThatEndsBeforeItBeginsIsUsage) {
  for (const char* command : {"steps", "stages", "report"}) {
    const Outcome outcome = run_command({command, "job", "--from", "9", "--to", "3"});
    EXPECT_EQ(outcome.code, ExitCode::usage) << command;
    EXPECT_EQ(outcome.err, "laggard: --from 9 is behind --to 3\n");
  }
}

TEST(App, ExportWritesJsonLinesOnly) {
  const StubCollector collector({{"GET /api/v1/runs/j/export", {200, "{}\n"}}});
  for (const char* form : {"table", "csv", "json", "markdown"}) {
    EXPECT_EQ(ask(collector, {"export", "j", "-o", form}).code, ExitCode::usage) << form;
  }
  EXPECT_EQ(ask(collector, {"export", "j", "-o", "jsonl"}).out, "{}\n");
  EXPECT_EQ(ask(collector, {"export", "j"}).out, "{}\n");
}

TEST(App, NobodyThereIsThreeAndSaysWhatToDo) {
  const std::string address = closed_address();
  for (const auto& line :
       std::vector<std::vector<std::string>>{{"runs"}, {"status", "--watch"}, {"export", "j"}}) {
    auto arguments = line;
    arguments.insert(arguments.begin(), {"--collector", address});
    const Outcome outcome = run_command(arguments);
    EXPECT_EQ(outcome.code, ExitCode::unreachable);
    EXPECT_THAT(outcome.err, HasSubstr(address));
    EXPECT_THAT(outcome.err, HasSubstr("--collector"));
  }
}

TEST(App, ACutOffAnswerIsThree) {
  const StubCollector collector({{"GET /api/v1/runs", {200, kNoRuns, true}}});
  EXPECT_EQ(ask(collector, {"runs"}).code, ExitCode::unreachable);
}

TEST(App, AnotherServerIsThree) {
  const StubCollector collector(
      {{"GET /api/v1/runs", {200, "<html>"}}, {"GET /api/v1/runs/j", {404, "not here"}}});
  EXPECT_THAT(ask(collector, {"runs"}).err, HasSubstr("is no collector"));
  const Outcome outcome = ask(collector, {"status", "j"});
  EXPECT_EQ(outcome.code, ExitCode::unreachable);
  EXPECT_THAT(outcome.err, HasSubstr("is no collector"));
}

TEST(App, NoSuchDataIsFourWithTheCollectorsSentence) {
  const StubCollector collector({});
  for (const auto& line : std::vector<std::vector<std::string>>{{"status", "j"},
                                                                {"steps", "j"},
                                                                {"step", "j", "3"},
                                                                {"ranks", "j"},
                                                                {"stages", "j"},
                                                                {"report", "j"},
                                                                {"export", "j"},
                                                                {"close", "j"}}) {
    const Outcome outcome = ask(collector, line);
    EXPECT_EQ(outcome.code, ExitCode::no_such_data) << line[0];
    EXPECT_EQ(outcome.err, "laggard: there is no such thing here; laggard runs lists them\n");
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(App, AdviceIsACommandAndNeverARequest) {
  const auto answer_of = [](const char* code) {
    return StubCollector::Answer{404, std::string(R"({"error": {"code": ")") + code +
                                          R"(", "message": "Nothing", "advice": "GET /api/v1/{run}"}})"};
  };
  const StubCollector collector({{"GET /api/v1/runs/a?attempt=2", answer_of("no_such_attempt")},
                                 {"GET /api/v1/runs/a/steps/9", answer_of("no_such_step")},
                                 {"GET /api/v1/runs/b", answer_of("nothing_yet")}});
  EXPECT_EQ(ask(collector, {"status", "a@2"}).err, "laggard: Nothing; laggard runs says how many it has\n");
  EXPECT_EQ(ask(collector, {"step", "a", "9"}).err, "laggard: Nothing; laggard steps lists them\n");
  EXPECT_EQ(ask(collector, {"status", "b"}).err, "laggard: Nothing\n");
}

TEST(App, AWindowWithoutStepsIsFourAndSaysWhichThereAre) {
  const std::string none = R"({"steps": [], "more": false})";
  const StubCollector collector(
      {{"GET /api/v1/runs/j/steps?from=30&to=40", {200, none}},
       {"GET /api/v1/runs/j/stages?from=30",
        {200, R"({"run": "j", "attempt": 1, "steps": 0, "stages": [], "window": {"from": 30, "to": null},
                  "left_out": {"aside": [31], "incomplete": [], "no_wall": [], "before": null, "after": 0}})"}},
       {"GET /api/v1/runs/j/steps?attempt=1&limit=1", {200, R"({"steps": [{"step": 1}]})"}},
       {"GET /api/v1/runs/j/steps?attempt=1&limit=1&newest=1", {200, R"({"steps": [{"step": 31}]})"}},
       {"GET /api/v1/runs/j/steps?limit=1", {200, R"({"steps": [{"step": 1}], "more": true})"}},
       {"GET /api/v1/runs/j/steps?limit=1&newest=1", {200, R"({"steps": [{"step": 20}], "more": true})"}},
       {"GET /api/v1/runs/new/steps", {200, none}},
       {"GET /api/v1/runs/new/steps?limit=1", {200, none}},
       {"GET /api/v1/runs/new/steps?limit=1&newest=1", {200, none}}});
  const Outcome steps = ask(collector, {"steps", "j", "--from", "30", "--to", "40"});
  EXPECT_EQ(steps.code, ExitCode::no_such_data);
  EXPECT_EQ(steps.out, "");
  EXPECT_EQ(steps.err, "laggard: run \"j\" has no step from 30 up to 40: stored are steps 1 to 20\n");
  const Outcome stages = ask(collector, {"stages", "j", "--from", "30"});
  EXPECT_EQ(stages.code, ExitCode::no_such_data);
  EXPECT_EQ(
      stages.err,
      "laggard: run \"j\", attempt 1, has nothing to show: 0 steps; left out: 1 step (31) with a checkpoint, "
      "an evaluation, logging or an exception; stored are steps 1 to 31\n");
  EXPECT_THAT(ask(collector, {"steps", "new"}).err, HasSubstr("has no step: no step is stored yet"));
}

std::string report_of(const char* runs) {
  return std::string(R"({"match": {"checked": false}, "notes": [], "runs": [)") + runs + "]}";
}

TEST(App, AReportShowsTheOtherRunsWhenOneHasNoStep) {
  constexpr const char* kEmpty = R"({"run": "b", "attempt": 1, "steps": 0, "left_out": {"before": 20},
      "window": {"from": 21, "to": 20, "chosen": "asked"}})";
  constexpr const char* kFull = R"({"run": "a", "attempt": 1, "steps": 9})";
  const StubCollector::Answer first{200, R"({"steps": [{"step": 1}]})"},
      last{200, R"({"steps": [{"step": 20}]})"};
  for (const bool all_empty : {true, false}) {
    const std::string runs = all_empty ? kEmpty : std::string(kFull) + ", " + kEmpty;
    const StubCollector collector({{"POST /api/v1/report", {200, report_of(runs.c_str())}},
                                   {"GET /api/v1/runs/b/steps?attempt=1&limit=1", first},
                                   {"GET /api/v1/runs/b/steps?attempt=1&limit=1&newest=1", last}});
    const Outcome outcome = ask(collector, {"report", "b", "--from", "21"});
    EXPECT_EQ(outcome.code, ExitCode::no_such_data);
    EXPECT_EQ(outcome.err,
              "laggard: run \"b\", attempt 1, has nothing to show: 0 steps; 20 steps before the window; "
              "stored are steps 1 to 20\n");
    EXPECT_EQ(outcome.out.empty(), all_empty);
  }
}

TEST(App, TheCodeTellsARefusalFromAWaitAndATrouble) {
  const auto code_for = [](unsigned status, const std::string& code) {
    const std::string body = R"({"error": {"code": ")" + code + R"(", "message": "a \u001b[2J sentence"}})";
    const StubCollector collector({{"GET /api/v1/runs/a", {status, body}}});
    const Outcome outcome = ask(collector, {"status", "a"});
    EXPECT_EQ(outcome.err, "laggard: a \\x1b[2J sentence\n");
    return outcome.code;
  };
  for (const unsigned status : {400U, 403U, 405U, 413U, 422U, 431U})
    EXPECT_EQ(code_for(status, "x"), ExitCode::usage) << status;
  EXPECT_EQ(code_for(503, "not_ready"), ExitCode::unreachable);
  EXPECT_EQ(code_for(503, "too_many"), ExitCode::unreachable);
  EXPECT_EQ(code_for(503, "time_limit"), ExitCode::failed);
  EXPECT_EQ(code_for(503, "storage"), ExitCode::failed);
  EXPECT_EQ(code_for(500, "internal"), ExitCode::failed);
}

TEST(App, AFileThatCannotBeReadIsFiveAndAWrongOneIsTwo) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(run_command({"report", "j", "--profile", "/proc/self/mem"}).code, ExitCode::failed);
  const std::string wrong = folder + "laggard_wrong_profile.toml";
  std::ofstream(wrong) << "nonsense = 1\n";
  const Outcome outcome = run_command({"report", "j", "--profile", wrong});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_THAT(outcome.err, HasSubstr(wrong + ":1"));
}

TEST(App, NoRunsIsFineButNoStatus) {
  const StubCollector collector({{"GET /api/v1/runs", {200, kNoRuns}}});
  EXPECT_EQ(ask(collector, {"runs"}).code, ExitCode::fine);
  EXPECT_EQ(ask(collector, {"runs", "-o", "jsonl"}).out, "");
  EXPECT_EQ(ask(collector, {"status"}).code, ExitCode::no_such_data);
}

TEST(App, TheFlagGoesBeforeTheEnvironment) {
  const StubCollector collector({{"GET /api/v1/runs", {200, kNoRuns}}});
  ::setenv("LAGGARD_COLLECTOR", collector.address().c_str(), 1);
  const ExitCode from_environment = run_command({"runs"}).code;
  const ExitCode from_flag = run_command({"runs", "--collector", closed_address()}).code;
  ::unsetenv("LAGGARD_COLLECTOR");
  EXPECT_EQ(from_environment, ExitCode::fine);
  EXPECT_EQ(from_flag, ExitCode::unreachable);
}

TEST(App, JsonIsTheCollectorsAnswer) {
  const std::string body =
      R"({"runs": [{"run": "j", "new_field": 0.1, "big": 9007199254740993, "x": null}]})";
  const StubCollector collector({{"GET /api/v1/runs", {200, body}}});
  const Outcome outcome = ask(collector, {"runs", "-o", "json"});
  EXPECT_EQ(nlohmann::ordered_json::parse(outcome.out), nlohmann::ordered_json::parse(body));
  EXPECT_THAT(outcome.out, HasSubstr("9007199254740993"));
}

TEST(App, JsonWithoutEndIsLeftOut) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const StubCollector collector({{"GET /api/v1/runs", {200, R"({"runs": [], "deep": )" + deep + "}"}}});
  const Outcome outcome = ask(collector, {"runs", "-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::fine);
  EXPECT_LT(outcome.out.size(), 100'000U);
}

TEST(App, AttemptsAndRangesReachTheCollector) {
  const StubCollector collector(
      {{"GET /api/v1/runs/a%2Fb/steps?attempt=2&from=3&to=9",
        {200, R"({"steps": [{"step": 4}], "more": false})"}},
       {"GET /api/v1/runs/j/steps?newest=1&limit=5", {200, R"({"steps": [{"step": 4}], "more": true})"}},
       {"GET /api/v1/runs/j/steps/-1", {200, "{}"}},
       {"GET /api/v1/runs/j/stages?to=4", {200, "{}"}},
       {"GET /api/v1/runs/j/export?attempt=1", {200, "{\"type\": \"end\"}\n"}}});
  EXPECT_EQ(ask(collector, {"steps", "a/b@2", "--from", "3", "--to", "9"}).code, ExitCode::fine);
  EXPECT_EQ(ask(collector, {"steps", "j", "--last", "5"}).code, ExitCode::fine);
  EXPECT_EQ(ask(collector, {"stages", "j", "--to", "4"}).code, ExitCode::fine);
  EXPECT_EQ(ask(collector, {"export", "j", "--attempt", "1"}).out, "{\"type\": \"end\"}\n");
}

TEST(App, StepsPutsPagesTogether) {
  const StubCollector collector(
      {{"GET /api/v1/runs/j/steps",
        {200, R"({"run": "j", "steps": [{"step": 1}, {"step": 4}], "more": true})"}},
       {"GET /api/v1/runs/j/steps?from=5", {200, R"({"run": "j", "steps": [{"step": 7}], "more": false})"}}});
  const auto answer = nlohmann::json::parse(ask(collector, {"steps", "j", "-o", "json"}).out);
  EXPECT_EQ(answer, nlohmann::json::parse(R"({"run": "j", "steps": [{"step": 1}, {"step": 4}, {"step": 7}],
                                              "more": false})"));
}

TEST(App, ReportSendsTheProfile) {
  const StubCollector collector(
      {{"POST /api/v1/report", {200, R"({"match": {"checked": false}, "runs": [], "notes": []})"}}});
  const std::string profile = LAGGARD_TEST_DATA "/published_runs/profile.toml";
  EXPECT_EQ(ask(collector, {"report", "a", "b@2", "--profile", profile, "--from", "11"}).code,
            ExitCode::fine);
  ASSERT_EQ(collector.bodies().size(), 1U);
  const auto body = nlohmann::json::parse(collector.bodies()[0]);
  EXPECT_EQ(body["runs"], nlohmann::json::parse(R"(["a", "b@2"])"));
  EXPECT_EQ(body["from"], 11);
  EXPECT_TRUE(body["to"].is_null());
  EXPECT_EQ(body["profile"]["parents"]["vggt_single"], "geometry_total");
  EXPECT_EQ(body["profile"]["stage_order"].size(), 14U);
  EXPECT_EQ(body["profile"]["ratios"][0],
            nlohmann::json::parse(R"({"name": "padding %", "numerator": "valid_tokens",
                                      "denominator": "token_slots", "complement": true})"));
}

TEST(App, RunsThatDoNotMatchAreOne) {
  const StubCollector collector(
      {{"POST /api/v1/report",
        {200, R"({"match": {"checked": true, "pass": false}, "runs": [], "notes": []})"}}});
  EXPECT_EQ(ask(collector, {"report", "a", "b"}).code, ExitCode::condition);
}

TEST(App, AReaderThatHasGoneIsNoError) {
  const StubCollector collector(
      {{"GET /api/v1/runs", {200, kNoRuns}},
       {"POST /api/v1/report",
        {200, R"({"match": {"checked": true, "pass": false}, "runs": [], "notes": []})"}}});
  std::string err;
  const Console console{.out = [](std::string_view) { throw OutputClosed{}; },
                        .err = [&](std::string_view text) { err += text; },
                        .terminal = [] { return Terminal{}; }};
  EXPECT_EQ(run({"--collector", collector.address(), "runs"}, console), ExitCode::fine);
  EXPECT_EQ(err, "");
  EXPECT_EQ(run({"--collector", collector.address(), "report", "a", "b"}, console), ExitCode::condition)
      << "what was found does not depend on who reads it";
}

}  // namespace
}  // namespace laggard::client
