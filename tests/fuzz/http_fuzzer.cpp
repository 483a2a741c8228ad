// A request to the HTTP API: a line each of method, target, Host, Origin, Authorization and Last-Event-ID,
// and the body to the end. Whatever it says, the answer is one that docs/api.md knows, and never that
// something broke inside.
#include <nlohmann/json.hpp>

#include "daemon/serve/api.h"
#include "daemon/serve/event_log.h"
#include "daemon/serve/export.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/unit/serve/fixture.h"

namespace {

using namespace laggard;
using fuzz::require;

/// The collector of the unit tests: one run with two attempts.
struct World {
  World() {
    test::add_job(store);
    for (const auto& [number, attempt] : store.runs.at("job"))
      if (number == 2)
        snapshot = test::snapshot_of({test::run_view("job", {1, 2}, test::live_view(attempt))});
    events.update(snapshot);
  }
  test::FakeStore store;
  std::shared_ptr<const core::Snapshot> snapshot;
  serve::QueryService service{test::collector_with([this] { return snapshot; })};
  serve::Counters counters;
  serve::Api api{service, counters, {.token = "sixteen-characters"}};
  serve::EventLog events;
};

void check(const serve::Answer& answer) {
  constexpr std::array kStatuses{200U, 400U, 401U, 403U, 404U, 405U, 422U};
  require(std::ranges::find(kStatuses, answer.status) != kStatuses.end(), "a status that the API knows");
  if (answer.content_type == "application/json")
    require(nlohmann::json::accept(answer.body), "JSON in an answer that says so");
}

void read_export(World& world, const serve::ExportAsked& asked, serve::History& history) {
  std::string text;
  check(serve::guarded([&] {
    serve::Export records(world.service, asked.attempt, history);
    while (records.next(history, &text)) {
    }
    return serve::Answer{.content_type = "application/x-ndjson"};
  }));
  // Not JSON in every case: settings may hold the NaN that the job wrote.
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = fuzz::take(rest, '\n');
    require(line.starts_with('{') && line.ends_with('}'), "an object on each exported line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  std::string_view rest = fuzz::text_of(data, size);
  serve::Request request;
  for (std::string* part : {&request.method, &request.target, &request.host, &request.origin,
                            &request.authorization, &request.last_event_id})
    *part = fuzz::take(rest, '\n');
  request.body = rest;

  test::FakeHistory history(world.store);
  serve::Reply reply = world.api.handle(request);
  if (const auto* answer = std::get_if<serve::Answer>(&reply)) {
    check(*answer);
  } else if (const auto* stored = std::get_if<serve::StoredAnswer>(&reply)) {
    check(serve::guarded([&] { return (*stored)(history); }));
  } else if (const auto* asked = std::get_if<serve::ExportAsked>(&reply)) {
    read_export(world, *asked, history);
  } else {
    const auto& events = std::get<serve::EventsAsked>(reply);
    const serve::EventLog::Start start = world.events.start(events.after);
    (void)world.events.read(start.position, events.run, 64 << 10);
  }
  return 0;
}
