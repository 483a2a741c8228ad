// How a delivery ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/collector_link.h"

namespace laggard::agent {

/// What one source still has to say, its Bye last.
struct LastWords {
  std::uint32_t channel = 0;
  std::vector<std::string> messages;
};

/// Says them and waits for the collector's answer to each Bye, at most until `limit`: a source that comes
/// next for the same rank must not find this one alive.
void say_bye(CollectorLink& link, const std::vector<LastWords>& sources,
             std::chrono::steady_clock::time_point limit);

}  // namespace laggard::agent
