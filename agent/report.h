// What became of every line, for people and for programs.
#pragma once

#include <string>

#include "agent/agent.h"

namespace laggard::agent {

std::string report_text(const DeliveryReport& report);
std::string report_json(const DeliveryReport& report);

}  // namespace laggard::agent
