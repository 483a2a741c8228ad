#include "daemon/base/settings.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/base/limits.h"

namespace laggard {
namespace {

using nlohmann::json;

std::optional<std::int64_t> integer(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return std::nullopt;
  if (it->is_number_unsigned() && it->get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  return it->get<std::int64_t>();
}

std::map<std::string, std::string> texts(const json& object, const char* key) {
  std::map<std::string, std::string> out;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_object()) return out;
  for (const auto& [name, value] : it->items())
    if (value.is_string()) out.emplace(name, value.get<std::string>());
  return out;
}

std::map<std::string, std::string> places(const json& object, const char* key) {
  std::map<std::string, std::string> out = texts(object, key);
  const auto it = object.find(key);
  if (it == object.end() || !it->is_object()) return out;
  for (const auto& [name, value] : it->items())
    if (value.is_number_integer()) out.emplace(name, value.dump());
  return out;
}

}  // namespace

Settings parse_settings(std::string_view text) {
  Settings settings;
  // Values nested deeper are left out: printing one recurses once a level.
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= limits::kMaxJsonDepth; };
  const json object = json::parse(text, shallow, /*allow_exceptions=*/false);
  if (!object.is_object()) return settings;
  for (const auto& [key, value] : object.items())
    settings.all.emplace(key, value.dump(-1, ' ', false, json::error_handler_t::replace));
  settings.world_size = integer(object, "world_size");
  settings.micro_batch = integer(object, "micro_batch");
  settings.accumulation = integer(object, "accumulation");
  settings.first_step = integer(object, "first_step");
  settings.last_step = integer(object, "last_step");
  settings.started_unix_ms = integer(object, "started_unix_ms");
  if (const auto it = object.find("global_batch"); it != object.end() && it->is_number())
    settings.global_batch = it->get<double>();
  settings.stage_parents = texts(object, "stage_parents");
  settings.stage_kinds = texts(object, "stage_kinds");
  settings.topology = places(object, "topology");
  for (const auto& [key, out] : {std::pair{"host", &settings.host}, std::pair{"launch_id", &settings.launch}})
    if (const auto it = object.find(key); it != object.end() && it->is_string())
      *out = it->get<std::string>();
  return settings;
}

std::optional<std::string> contradiction(const Settings& settings) {
  if (!settings.micro_batch || !settings.accumulation || !settings.world_size || !settings.global_batch)
    return std::nullopt;
  const double product = static_cast<double>(*settings.micro_batch) *
                         static_cast<double>(*settings.accumulation) *
                         static_cast<double>(*settings.world_size);
  if (product == *settings.global_batch) return std::nullopt;
  const auto number = [](double value) {
    const bool whole = std::abs(value) < 1e15 && std::floor(value) == value;
    return whole ? std::to_string(static_cast<std::int64_t>(value)) : json(value).dump();
  };
  return "micro_batch " + std::to_string(*settings.micro_batch) + " x accumulation " +
         std::to_string(*settings.accumulation) + " x world_size " + std::to_string(*settings.world_size) +
         " = " + number(product) + ", but global_batch is " + number(*settings.global_batch) +
         ": samples/s may be off";
}

}  // namespace laggard
