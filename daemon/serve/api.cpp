#include "daemon/serve/api.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/serve/json.h"
#include "daemon/serve/metrics.h"
#include "daemon/serve/origin.h"
#include "daemon/serve/query_error.h"
#include "daemon/serve/report_body.h"
#include "daemon/serve/url.h"

namespace laggard::serve {
namespace {

Answer json_answer(const Json& json) { return {.body = dump(json) + "\n"}; }

Answer error_answer(unsigned status, const std::string& code, const std::string& message,
                    const std::string& advice = "") {
  Json error = {{"code", code}, {"message", message}};
  if (!advice.empty()) error["advice"] = advice;
  Answer answer = json_answer({{"error", std::move(error)}});
  answer.status = status;
  return answer;
}

Answer text_answer(unsigned status, const std::string& line) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = line + "\n"};
}

template <typename Integer>
std::optional<Integer> integer(const std::map<std::string, std::string>& query, const std::string& name,
                               Integer lowest) {
  const auto it = query.find(name);
  if (it == query.end() || it->second.empty()) return std::nullopt;
  Integer value{};
  const char* end = it->second.data() + it->second.size();
  const auto [last, error] = std::from_chars(it->second.data(), end, value);
  if (error != std::errc{} || last != end || value < lowest)
    throw QueryError(
        400, "bad_request",
        name + " must be a whole number from " + std::to_string(lowest) + " up, not \"" + it->second + "\"");
  return value;
}

constexpr Step kLowestStep = std::numeric_limits<Step>::min();

bool flag(const std::map<std::string, std::string>& query, const std::string& name) {
  const auto value = integer<unsigned>(query, name, 0).value_or(0);
  if (value > 1) throw QueryError(400, "bad_request", name + " must be 0 or 1, not " + std::to_string(value));
  return value == 1;
}

core::Window window_of(const std::map<std::string, std::string>& query) {
  const core::Window window{integer<Step>(query, "from", kLowestStep),
                            integer<Step>(query, "to", kLowestStep)};
  if (window.from.has_value() && window.to.has_value() && *window.from > *window.to)
    throw QueryError(400, "bad_request", "from must not be larger than to");
  return window;
}

AttemptAsked attempt_of(const std::string& run, const std::map<std::string, std::string>& query) {
  return {.run = run, .attempt = integer<std::uint32_t>(query, "attempt", 1)};
}

/// The names in the place of each {} of the pattern; nothing when the path is another one.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& pattern,
                                              const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (pattern[i] == "{}")
      names.push_back(path[i]);
    else if (pattern[i] != path[i])
      return std::nullopt;
  }
  return names;
}

}  // namespace

struct Api::Route {
  std::string method;
  std::vector<std::string> path;
  std::vector<std::string> parameters;  // of the query; any other is an error
  Reply (Api::*handler)(const Call&) const;
  Level level = Level::reading;
};

const std::vector<Api::Route>& Api::routes() {
  static const std::vector<Route> table = {
      {"GET", {"api", "v1", "status"}, {}, &Api::status},
      {"GET", {"api", "v1", "runs"}, {}, &Api::runs},
      {"GET", {"api", "v1", "runs", "{}"}, {"attempt"}, &Api::run},
      {"DELETE", {"api", "v1", "runs", "{}"}, {}, &Api::remove, Level::admin},
      {"GET",
       {"api", "v1", "runs", "{}", "steps"},
       {"attempt", "from", "to", "limit", "newest"},
       &Api::steps},
      {"GET", {"api", "v1", "runs", "{}", "steps", "{}"}, {"attempt"}, &Api::step},
      {"GET", {"api", "v1", "runs", "{}", "ranks"}, {"attempt"}, &Api::ranks},
      {"GET", {"api", "v1", "runs", "{}", "stages"}, {"attempt", "from", "to"}, &Api::stages},
      {"GET", {"api", "v1", "runs", "{}", "export"}, {"attempt"}, &Api::export_run},
      {"POST", {"api", "v1", "report"}, {}, &Api::report},
      {"POST", {"api", "v1", "compare"}, {}, &Api::compare},
      {"POST", {"api", "v1", "runs", "{}", "close"}, {}, &Api::close, Level::admin},
      {"GET", {"api", "v1", "events"}, {"run", "after"}, &Api::events},
      {"GET", {"metrics"}, {"ranks"}, &Api::metrics},
      {"GET", {"-", "healthy"}, {}, &Api::healthy, Level::open},
      {"GET", {"-", "ready"}, {}, &Api::ready, Level::open},
  };
  return table;
}

Answer guarded(const std::function<Answer()>& answer) {
  try {
    return answer();
  } catch (const QueryError& error) {
    return error_answer(static_cast<unsigned>(error.status()), error.code(), error.what(), error.advice());
  } catch (const QueryTimeout& error) {
    return error_answer(503, "time_limit", error.what());
  } catch (const Error& error) {
    return error_answer(503, "storage", error.what());
  } catch (const std::exception& error) {
    return error_answer(500, "internal", error.what());
  }
}

Reply Api::handle(const Request& request) const {
  Reply reply;
  Answer answer = guarded([&] {
    reply = route(request);
    return Answer{};
  });
  if (answer.status != 200) return answer;
  return reply;
}

Api::Found Api::find(const std::string& method, const std::vector<std::string>& path) {
  Found found;
  for (const Route& route : routes()) {
    auto names = match(route.path, path);
    if (!names.has_value()) continue;
    if (route.method == method) return {.route = &route, .names = *std::move(names)};
    found.allow += (found.allow.empty() ? "" : ", ") + (route.method == "GET" ? "GET, HEAD" : route.method);
  }
  return found;
}

Reply Api::route(const Request& request) const {
  check_origin({.method = request.method, .host = request.host, .origin = request.origin}, access_);
  auto url = parse_url(request.target);
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  Found found = url.has_value() ? find(method, url->path) : Found();
  // Who lacks the token does not learn which requests there are either.
  check_token(access_, found.route != nullptr ? found.route->level : Level::reading, request.authorization);
  if (!url.has_value()) throw QueryError(400, "bad_request", "the request's target cannot be read");
  if (found.route == nullptr) {
    if (found.allow.empty())
      throw QueryError(404, "not_found", "there is nothing here", "docs/api.md lists the requests");
    Answer answer = error_answer(405, "method_not_allowed", "this takes " + found.allow + " only");
    answer.allow = std::move(found.allow);
    return answer;
  }
  const Route& route = *found.route;
  for (const auto& [name, value] : url->query)
    if (std::ranges::find(route.parameters, name) == route.parameters.end())
      throw QueryError(400, "bad_request", "this request knows no parameter \"" + name + "\"");
  const Call call{.names = std::move(found.names),
                  .query = std::move(url->query),
                  .body = &request.body,
                  .last_event_id = request.last_event_id};
  return (this->*route.handler)(call);
}

Reply Api::status(const Call&) const { return json_answer(service_.status()); }

Reply Api::runs(const Call&) const { return json_answer(service_.runs()); }

Reply Api::run(const Call& call) const {
  return json_answer(service_.run(attempt_of(call.names[0], call.query)));
}

Reply Api::steps(const Call& call) const {
  StepsAsked steps{.window = window_of(call.query), .newest = flag(call.query, "newest")};
  steps.limit = integer<std::size_t>(call.query, "limit", 1).value_or(steps.limit);
  if (steps.limit > limits::kMaxStepsPerAnswer)
    throw QueryError(422, "too_much", "limit is at most " + std::to_string(limits::kMaxStepsPerAnswer),
                     "ask in pieces");
  return StoredAnswer([this, asked = attempt_of(call.names[0], call.query), steps](History& history) {
    return json_answer(service_.steps(asked, steps, history));
  });
}

Reply Api::step(const Call& call) const {
  const auto step = integer<Step>({{"step", call.names[1]}}, "step", kLowestStep);
  if (!step.has_value()) throw QueryError(400, "bad_request", "the step's number is missing");
  return StoredAnswer([this, asked = attempt_of(call.names[0], call.query), step](History& history) {
    return json_answer(service_.step(asked, *step, history));
  });
}

Reply Api::ranks(const Call& call) const {
  return StoredAnswer([this, asked = attempt_of(call.names[0], call.query)](History& history) {
    return json_answer(service_.ranks(asked, history));
  });
}

Reply Api::stages(const Call& call) const {
  return StoredAnswer([this, asked = attempt_of(call.names[0], call.query), window = window_of(call.query),
                       until = service_.report_deadline()](History& history) {
    return json_answer(service_.stages(asked, window, history, until));
  });
}

Reply Api::export_run(const Call& call) const {
  return ExportAsked{.attempt = attempt_of(call.names[0], call.query)};
}

Reply Api::report(const Call& call) const {
  // A body may be large, and reading it must not hold up those who ask for what is live.
  return StoredAnswer([this, body = *call.body, until = service_.report_deadline()](History& history) {
    return json_answer(service_.report(parse_report_body(body), history, until));
  });
}

Reply Api::compare(const Call& call) const {
  return StoredAnswer([this, body = *call.body, until = service_.report_deadline()](History& history) {
    return json_answer(service_.compare(parse_compare_body(body), history, until));
  });
}

Reply Api::close(const Call& call) const {
  // Closing waits until it is durable, so it must not be done where live answers are given.
  return StoredAnswer([this, run = call.names[0]](History&) { return json_answer(service_.close_run(run)); });
}

Reply Api::remove(const Call& call) const {
  return StoredAnswer(
      [this, run = call.names[0]](History&) { return json_answer(service_.delete_run(run)); });
}

Reply Api::events(const Call& call) const {
  EventsAsked asked;
  if (const auto it = call.query.find("run"); it != call.query.end()) asked.run = it->second;
  if (!asked.run.empty()) service_.find_run({.run = asked.run, .attempt = std::nullopt});
  asked.after = integer<std::uint64_t>(call.query, "after", 0);
  if (!call.last_event_id.empty())
    asked.after = integer<std::uint64_t>({{"Last-Event-ID", call.last_event_id}}, "Last-Event-ID", 0);
  return asked;
}

Reply Api::metrics(const Call& call) const {
  return Answer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                .body = metrics_page(service_, counters_, flag(call.query, "ranks"))};
}

Reply Api::healthy(const Call&) const { return text_answer(200, "healthy"); }

Reply Api::ready(const Call&) const {
  return service_.ready() ? text_answer(200, "ready") : text_answer(503, "still reading the database");
}

}  // namespace laggard::serve
