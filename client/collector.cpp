#include "client/collector.h"

#include "client/failure.h"
#include "daemon/base/limits.h"

namespace laggard::client {
namespace {

using Json = nlohmann::ordered_json;

// A run's settings may be as deep as the limit, and stand inside an answer's own objects.
constexpr int kMaxDepth = limits::kMaxJsonDepth + 16;

ExitCode code_of(unsigned status, const std::string& code) {
  if (status == 404) return ExitCode::no_such_data;
  if (status == 409) return ExitCode::failed;
  if (status >= 400 && status < 500) return ExitCode::usage;
  return code == "not_ready" || code == "too_many" ? ExitCode::unreachable : ExitCode::failed;
}

// What to do next, in commands: the collector's own advice is for those who speak HTTP.
std::string advice_for(const std::string& code) {
  if (code == "no_such_run") return "; laggard runs lists them";
  if (code == "no_such_attempt") return "; laggard runs says how many it has";
  if (code == "still_fed") return "; stop them first";
  if (code == "no_such_step") return "; laggard steps lists them";
  if (code == "unauthorized") return ": give its file with --token-file FILE or LAGGARD_TOKEN_FILE";
  return "";
}

struct Refusal {
  std::string code, sentence;  // "" for what no collector would say
};

Refusal refusal_of(const std::string& body) {
  const Json json = parse_json(body);
  if (!json.is_object() || !json.contains("error")) return {};
  const Json& error = json["error"];
  if (!error.is_object() || !error.contains("message") || !error["message"].is_string()) return {};
  Refusal refusal;
  if (error.contains("code") && error["code"].is_string()) refusal.code = error["code"].get<std::string>();
  refusal.sentence = error["message"].get<std::string>() + advice_for(refusal.code);
  return refusal;
}

}  // namespace

Json parse_json(std::string_view text) {
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  return Json::parse(text, keep, false);
}

void Collector::check(const HttpAnswer& answer) const {
  if (answer.status == 200) return;
  const Refusal refusal = refusal_of(answer.body);
  // A 404 without a sentence of the collector's is some other server's.
  if (refusal.sentence.empty()) {
    throw NoAnswer(ExitCode::unreachable, "what answers at " + address() + " is no collector: HTTP status " +
                                              std::to_string(answer.status));
  }
  const ExitCode code = code_of(answer.status, refusal.code);
  if (code == ExitCode::usage) throw Failure(code, refusal.sentence);
  throw NoAnswer(code, refusal.sentence);
}

Json Collector::ask(const HttpRequest& request, std::chrono::seconds timeout) const {
  const HttpAnswer answer = send_request(endpoint_, request, nullptr, timeout);
  check(answer);
  Json json = parse_json(answer.body);
  if (json.is_discarded()) {
    throw NoAnswer(ExitCode::unreachable, "what answers at " + address() + " is no collector: no JSON");
  }
  return json;
}

Json Collector::get(const std::string& target, std::chrono::seconds timeout) const {
  return ask({.method = "GET", .target = target, .body = {}}, timeout);
}

Json Collector::remove(const std::string& target) const {
  return ask({.method = "DELETE", .target = target, .body = {}}, kAnswerTimeout);
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
