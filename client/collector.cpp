#include "client/collector.h"

#include "client/failure.h"
#include "daemon/base/limits.h"

namespace laggard::client {
namespace {

using Json = nlohmann::ordered_json;

// A run's settings may be as deep as the limit, and stand inside an answer's own objects.
constexpr int kMaxDepth = limits::kMaxJsonDepth + 16;

ExitCode code_of(unsigned status) {
  switch (status) {
    case 400:
    case 413:
    case 422:
      return ExitCode::usage;
    case 404:
      return ExitCode::no_such_data;
    default:
      return ExitCode::unreachable;
  }
}

// What to do next, in commands: the collector's own advice is for those who speak HTTP.
std::string advice_for(const Json& code) {
  if (code == "no_such_run") return "; laggard runs lists them";
  if (code == "no_such_attempt") return "; laggard runs says how many it has";
  if (code == "no_such_step") return "; laggard steps lists them";
  return "";
}

std::string sentence_of(const std::string& body) {
  const Json json = parse_json(body);
  if (!json.is_object() || !json.contains("error")) return "";
  const Json& error = json["error"];
  if (!error.is_object() || !error.contains("message") || !error["message"].is_string()) return "";
  return error["message"].get<std::string>() + (error.contains("code") ? advice_for(error["code"]) : "");
}

}  // namespace

Json parse_json(std::string_view text) {
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  return Json::parse(text, keep, false);
}

void Collector::check(const HttpAnswer& answer) const {
  if (answer.status == 200) return;
  const std::string sentence = sentence_of(answer.body);
  // A 404 without a sentence of the collector's is some other server's.
  if (sentence.empty()) {
    throw Failure(ExitCode::unreachable, "what answers at " + address() + " is no collector: HTTP status " +
                                             std::to_string(answer.status));
  }
  throw Failure(code_of(answer.status), sentence);
}

Json Collector::ask(const HttpRequest& request, std::chrono::seconds timeout) const {
  const HttpAnswer answer = send_request(endpoint_, request, nullptr, timeout);
  check(answer);
  Json json = parse_json(answer.body);
  if (json.is_discarded()) {
    throw Failure(ExitCode::unreachable, "what answers at " + address() + " is no collector: no JSON");
  }
  return json;
}

Json Collector::get(const std::string& target, std::chrono::seconds timeout) const {
  return ask({.method = "GET", .target = target, .body = {}}, timeout);
}

Json Collector::post(const std::string& target, const Json& body) const {
  return ask(
      {.method = "POST", .target = target, .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)},
      kAnswerTimeout);
}

void Collector::stream(const std::string& target, const Sink& sink) const {
  check(send_request(endpoint_, {.method = "GET", .target = target, .body = {}}, sink));
}

}  // namespace laggard::client
