#include "agent/api/settings.h"

#include <laggard/laggard.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/launcher.h"
#include "agent/line_parser.h"
#include "agent/utf8.h"
#include "daemon/base/error.h"
#include "daemon/keys/key_file.h"

namespace laggard::agent {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A member of the options that was set, else the variable.
std::string text_of(const char* member, const char* name) {
  return member != nullptr ? std::string(member) : variable(name);
}

std::optional<std::uint32_t> number_of(const char* name, std::uint32_t least, std::size_t most) {
  const std::string text = variable(name);
  if (text.empty()) return std::nullopt;
  const std::optional<std::uint32_t> number = parse_number(text);
  if (!number.has_value() || *number < least || *number > most)
    throw Error(std::string(name) + "=" + text + ": it is a number from " + std::to_string(least) + " to " +
                std::to_string(most));
  return number;
}

// A caller that was compiled against an older header has fewer members.
laggard_options whole(const laggard_options* given) {
  laggard_options options = LAGGARD_OPTIONS_INIT;
  if (given == nullptr) return options;
  if (given->size < offsetof(laggard_options, world_size))
    throw Error("laggard_options.size is not set: begin with LAGGARD_OPTIONS_INIT");
  std::memcpy(static_cast<void*>(&options), given, std::min(given->size, sizeof options));
  return options;
}

// Numbers of the options or of LAGGARD_* are of one hand; a rank of theirs has no world size of the
// launcher's.
void place(const laggard_options& options, const Launch& launch, ApiSettings* out) {
  std::optional<Rank> rank;
  if (launch.rank.has_value()) rank = launch.rank->value;
  if (launch.world_size.has_value()) out->world_size = launch.world_size->value;
  if (launch.local_rank.has_value()) out->local_rank = launch.local_rank->value;
  if (options.rank >= 0) {
    rank = static_cast<Rank>(options.rank);
    out->local_rank.reset();
    if (out->world_size != 0 && launch.world_size->variable != "LAGGARD_WORLD_SIZE") out->world_size = 0;
  }
  if (options.world_size != 0) out->world_size = options.world_size;
  if (!rank.has_value() && options.otherwise_rank >= 0) {
    rank = static_cast<Rank>(options.otherwise_rank);
    if (out->world_size == 0) out->world_size = options.otherwise_world_size;
  }
  if (!rank.has_value() && out->world_size > 1)
    throw Error("which of the " + std::to_string(out->world_size) +
                " ranks this is was not said: set LAGGARD_RANK");
  if (!rank.has_value() && out->world_size == 0 && launch.unclear.has_value())
    throw Error("which rank this is cannot be told: " + *launch.unclear +
                ". Set LAGGARD_RANK and LAGGARD_WORLD_SIZE, or hand them to init()");
  if (!rank.has_value() && out->world_size == 0) out->world_size = 1;  // nothing speaks of other processes
  out->rank = rank.value_or(0);
  if (out->world_size > limits::kMaxRank ||
      out->rank >= (out->world_size != 0 ? out->world_size : limits::kMaxRank))
    throw Error("rank " + std::to_string(out->rank) + " is none of " + std::to_string(out->world_size) +
                " ranks, which are counted from 0");
}

std::optional<std::uint32_t> attempt_of(const laggard_options& options, const Launch& launch) {
  if (options.attempt > limits::kMaxAttempt) throw Error("attempt is beyond the most there can be");
  if (options.attempt != 0) return options.attempt;
  if (launch.attempt.has_value()) return launch.attempt->value;
  // A first start need not be the first attempt: a run may be started by hand once more. The collector knows.
  if (!launch.restarts.has_value() || launch.restarts->value == 0) return std::nullopt;
  return std::min(launch.restarts->value + 1, std::uint32_t{limits::kMaxAttempt});
}

std::string run_of(const laggard_options& options, const Launch& launch, std::vector<std::string>* remarks) {
  std::string run = options.run != nullptr ? options.run : "", from;
  if (run.empty() && launch.run.has_value()) {
    run = launch.run->value;
    from = " from " + launch.run->variable;
  }
  if (run.empty())
    run = options.otherwise_run != nullptr ? options.otherwise_run : program_invocation_short_name;
  const auto why = bad_run_name(run);
  if (!why.has_value()) return run;
  std::string usable = usable_run_name(run);
  if (usable.empty()) usable = "job";
  remarks->push_back("the run cannot have the name " + escape_to_utf8(run) + from + ": " + *why +
                     ". It is called " + usable + "; LAGGARD_RUN can give it another");
  return usable;
}

// A number that is none is said, and counts as not set.
std::uint32_t number_or_zero(const char* name, std::size_t most, std::vector<std::string>* remarks) {
  try {
    return number_of(name, 0, most).value_or(0);
  } catch (const Error& error) {
    remarks->push_back(std::string(error.what()) + ", and counts as not set");
    return 0;
  }
}

void take_config(const laggard_options& options, ApiSettings* out) {
  if (options.config == nullptr) return;
  try {
    make_config(*out, options.config);
    out->config = options.config;
  } catch (const Error& error) {
    out->remarks.push_back(std::string(error.what()) + ": the run goes on without them");
  }
}

std::int64_t now_unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// The same slot of every node is a group of ranks: it may be the slot that is slow.
void place_on_node(Rank local_rank, nlohmann::json* config) {
  config->emplace("local_rank", local_rank);
  nlohmann::json& topology = config->emplace("topology", nlohmann::json::object()).first.value();
  if (topology.is_object()) topology.emplace("local_rank", local_rank);
}

}  // namespace

bool is_disabled() {
  const std::string value = variable("LAGGARD_DISABLED");
  return !value.empty() && value != "0";
}

ApiSettings read_settings(const laggard_options* given) {
  const laggard_options options = whole(given);
  ApiSettings out;
  if (std::string collector = text_of(options.collector, "LAGGARD_INGEST"); !collector.empty())
    out.collector = std::move(collector);
  const Launch launch = read_launch(process_environment());
  if (!launch.wrong.empty()) throw Error(launch.wrong.front());
  out.run = run_of(options, launch, &out.remarks);
  place(options, launch, &out);
  out.attempt = attempt_of(options, launch);
  if (launch.launch.has_value()) out.launch = launch.launch->value;
  out.job = variable("LAGGARD_JOB");
  out.started_unix_ms = now_unix_ms();
  const std::uint32_t queue =
      options.queue_records != 0
          ? options.queue_records
          : number_or_zero("LAGGARD_QUEUE_RECORDS", limits::kWindowRecords, &out.remarks);
  if (queue != 0)
    out.queue_records = std::clamp<std::size_t>(queue, limits::kLeastQueueRecords, limits::kWindowRecords);
  out.held_steps = std::min<std::size_t>(options.held_steps, limits::kMaxHeldSteps);
  out.cuda = text_of(options.cuda, "LAGGARD_CUDA");
  if (out.cuda == "none") out.cuda.clear();
  out.spool = text_of(options.spool, "LAGGARD_SPOOL");
  const std::uint32_t spool_mb = options.spool_mb != 0
                                     ? options.spool_mb
                                     : number_or_zero("LAGGARD_SPOOL_MB", limits::kMaxSpoolMb, &out.remarks);
  if (spool_mb != 0) out.spool_mb = std::min(spool_mb, limits::kMaxSpoolMb);
  take_config(options, &out);
  out.keys = keys::read_peer_keys(text_of(options.key_file, "LAGGARD_KEY"),
                                  text_of(options.collector_key, "LAGGARD_COLLECTOR_KEY"));
  return out;
}

ParsedLine make_config(const ApiSettings& settings, std::string_view text) {
  using nlohmann::json;
  if (text.size() > limits::kMaxSettingsBytes) throw Error("the settings are longer than a config may be");
  // Printing a value recurses once a level.
  bool too_deep = false;
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    too_deep |= depth > limits::kMaxJsonDepth;
    return !too_deep;
  };
  json config = text.empty() ? json::object() : json::parse(text, shallow, /*allow_exceptions=*/false);
  if (too_deep) throw Error("the settings are nested too deep");
  if (!config.is_object()) throw Error("the settings are not the text of a JSON object");
  config["type"] = "config";
  config["rank"] = settings.rank;
  if (settings.world_size != 0) config["world_size"] = settings.world_size;
  if (settings.attempt.has_value()) config["attempt"] = *settings.attempt;
  // Beside what it is good for itself, it tells the settings of one start from those of the next.
  if (!config.contains("started_unix_ms")) config["started_unix_ms"] = settings.started_unix_ms;
  if (!settings.launch.empty()) config["launch_id"] = settings.launch;
  if (!settings.job.empty()) config["laggard_job"] = settings.job;
  if (settings.local_rank.has_value()) place_on_node(*settings.local_rank, &config);
  const std::string line = config.dump(-1, ' ', false, json::error_handler_t::replace);
  LineParser parser;
  parser.start(line);
  const ParsedLine* parsed = parser.next();
  if (parsed == nullptr || parsed->kind != LineKind::config)
    throw Error("the settings cannot be taken: " + std::string(parsed == nullptr ? "" : parsed->reason));
  return *parsed;
}

}  // namespace laggard::agent
