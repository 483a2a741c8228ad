// A run as people name it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace laggard::client {

/// "NAME" or "NAME@ATTEMPT"; without an attempt the newest one is meant.
struct RunRef {
  std::string name;
  std::optional<std::uint32_t> attempt;
};

RunRef parse_run(const std::string& text);

/// The path of the run, or of something below it ("/steps"), with the attempt and `query` ("from=3&to=4").
std::string run_target(const RunRef& run, const std::string& below = "", const std::string& query = "");

}  // namespace laggard::client
