// Reading what the collector answered: a field that is missing or of another type is nothing, never 0.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "client/render/table.h"

namespace laggard::client {

using Json = nlohmann::ordered_json;

/// The member of an object; JSON null when there is none.
const Json& at(const Json& object, std::string_view key);

std::optional<double> number(const Json& value);
std::optional<std::int64_t> integer(const Json& value);
/// A text as it is, anything else but null as JSON; "" for null.
std::string text(const Json& value);
bool truth(const Json& value);

/// A number with this many digits for people; no value when it is null.
Cell real_cell(const Json& value, int digits);
Cell integer_cell(const Json& value);
Cell text_cell(const Json& value);
/// How long ago, for people: "-" when null.
Cell age_cell(const Json& value);

/// "1, 2, 5" from an array of anything; `most` entries at most, then "and 17 more" when `total` is larger.
std::string listed(const Json& array, std::size_t most, std::optional<std::int64_t> total = std::nullopt);

/// "rank 3" or "ranks 0, 2, 3".
std::string ranks_text(const Json& ranks, std::optional<std::int64_t> total = std::nullopt);

/// "3 steps", "1 step": the word gets its plural s.
std::string counted(std::int64_t n, std::string_view word);

}  // namespace laggard::client
