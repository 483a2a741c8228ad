// How a followed file numbers the attempts of a rank.
#pragma once

#include <cstdint>
#include <optional>

namespace laggard::agent {

/// Counts attempts by the config lines of one rank in one file, so that reading the file again gives the same
/// numbers.
struct AttemptState {
  std::uint32_t attempt = 1;
  bool explicit_number = false;  ///< a config said the number
  bool config_seen = false;
  bool updates_since_config = false;

  /// A config line. It begins the next attempt when it is not the first and updates came since the last one;
  /// a number it says itself (`said`) counts instead, and begins one only when it is higher.
  void on_config(std::optional<std::uint32_t> said) {
    if (said.has_value()) {
      if (*said > attempt) attempt = *said;
      explicit_number = *said == attempt;
    } else if (config_seen && updates_since_config) {
      ++attempt;
      explicit_number = false;
    }
    config_seen = true;
    updates_since_config = false;
  }
  void on_update() { updates_since_config = true; }

  bool operator==(const AttemptState&) const = default;
};

}  // namespace laggard::agent
