#include "agent/api/settings.h"

#include <laggard/laggard.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

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
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
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

void place(const laggard_options& options, ApiSettings* out) {
  out->world_size = options.world_size != 0
                        ? options.world_size
                        : number_of("LAGGARD_WORLD_SIZE", 1, limits::kMaxRank).value_or(0);
  const std::optional<std::uint32_t> rank = options.rank >= 0
                                                ? static_cast<std::uint32_t>(options.rank)
                                                : number_of("LAGGARD_RANK", 0, limits::kMaxRank - 1);
  if (!rank.has_value() && out->world_size > 1)
    throw Error("which of the " + std::to_string(out->world_size) +
                " ranks this is was not said: set LAGGARD_RANK");
  if (!rank.has_value() && out->world_size == 0) out->world_size = 1;  // nothing speaks of other processes
  out->rank = rank.value_or(0);
  if (out->world_size > limits::kMaxRank ||
      out->rank >= (out->world_size != 0 ? out->world_size : limits::kMaxRank))
    throw Error("rank " + std::to_string(out->rank) + " is none of " + std::to_string(out->world_size) +
                " ranks, which are counted from 0");
  out->attempt = options.attempt != 0 ? std::optional(options.attempt)
                                      : number_of("LAGGARD_ATTEMPT", 1, limits::kMaxAttempt);
  if (out->attempt.value_or(1) > limits::kMaxAttempt) throw Error("attempt is beyond the most there can be");
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
  out.run = text_of(options.run, "LAGGARD_RUN");
  if (out.run.empty()) throw Error("the run has no name: set LAGGARD_RUN");
  if (out.run.size() > limits::kMaxRunNameBytes || !is_utf8(out.run))
    throw Error("the run's name has more than " + std::to_string(limits::kMaxRunNameBytes) +
                " bytes or is not UTF-8");
  place(options, &out);
  const std::uint32_t queue = options.queue_records != 0
                                  ? options.queue_records
                                  : number_of("LAGGARD_QUEUE_RECORDS", 0, limits::kWindowRecords).value_or(0);
  if (queue != 0)
    out.queue_records = std::clamp<std::size_t>(queue, limits::kLeastQueueRecords, limits::kWindowRecords);
  out.held_steps = std::min<std::size_t>(options.held_steps, limits::kMaxHeldSteps);
  out.spool = text_of(options.spool, "LAGGARD_SPOOL");
  const std::uint32_t spool_mb = options.spool_mb != 0
                                     ? options.spool_mb
                                     : number_of("LAGGARD_SPOOL_MB", 0, limits::kMaxSpoolMb).value_or(0);
  if (spool_mb != 0) out.spool_mb = std::min(spool_mb, limits::kMaxSpoolMb);
  if (options.config != nullptr) out.config = options.config;
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
  const std::string line = config.dump(-1, ' ', false, json::error_handler_t::replace);
  LineParser parser;
  parser.start(line);
  const ParsedLine* parsed = parser.next();
  if (parsed == nullptr || parsed->kind != LineKind::config)
    throw Error("the settings cannot be taken: " + std::string(parsed == nullptr ? "" : parsed->reason));
  return *parsed;
}

}  // namespace laggard::agent
