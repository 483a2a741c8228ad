// JSON as this program prints it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "client/render/table.h"

namespace laggard::client {

/// The JSON as text that can do no harm on a terminal; `indent` below 0 writes it on one line. Broken UTF-8
/// becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent);

/// The rows of a table as objects.
nlohmann::ordered_json json_rows(const Table& table);

}  // namespace laggard::client
