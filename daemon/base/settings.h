// The settings of an attempt, as a config line says them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace laggard {

struct Settings {
  /// Every key with its value as compact JSON, the known ones included.
  std::map<std::string, std::string> all;

  std::optional<std::int64_t> world_size, micro_batch, accumulation;
  std::optional<double> global_batch;
  std::optional<std::int64_t> first_step, last_step;  ///< the measured window
  std::optional<std::int64_t> started_unix_ms;        ///< when the job began
  std::map<std::string, std::string> stage_parents;   ///< child -> parent
  std::map<std::string, std::string> stage_kinds;
  std::map<std::string, std::string> topology;  ///< "pp" -> "3": this rank's place, whole numbers and texts
  std::string host;
  std::string launch;  ///< what all ranks of one start have in common, and no other start at the same time
};

/// Reads a config's JSON object. A known key of the wrong type counts as not said; text that is no JSON
/// object gives empty settings.
Settings parse_settings(std::string_view json);

/// The sentence to show when the settings contradict themselves; nothing when they do not.
std::optional<std::string> contradiction(const Settings& settings);

}  // namespace laggard
