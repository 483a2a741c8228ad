#include "client/views/fields.h"

#include "client/render/number.h"

namespace laggard::client {
namespace {

constexpr std::size_t kRanksNamed = 16;

}  // namespace

const Json& at(const Json& object, std::string_view key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNothing : *found;
}

std::optional<double> number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

std::optional<std::int64_t> integer(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<std::int64_t>();
}

std::string text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool truth(const Json& value) { return value.is_boolean() && value.get<bool>(); }

Cell real_cell(const Json& value, int digits) {
  const auto real = number(value);
  return real ? Cell(*real, digits) : Cell();
}

Cell integer_cell(const Json& value) {
  const auto whole = integer(value);
  return whole ? Cell(*whole) : Cell();
}

Cell text_cell(const Json& value) { return value.is_null() ? Cell() : Cell(text(value)); }

Cell age_cell(const Json& value) {
  const auto ms = integer(value);
  return ms ? Cell(age(*ms)) : Cell();
}

std::string listed(const Json& array, std::size_t most, std::optional<std::int64_t> total) {
  std::string out;
  std::int64_t shown = 0;
  if (array.is_array()) {
    for (const Json& item : array) {
      if (shown == static_cast<std::int64_t>(most)) break;
      out += (shown++ > 0 ? ", " : "") + text(item);
    }
  }
  const std::int64_t all = total.value_or(static_cast<std::int64_t>(array.is_array() ? array.size() : 0));
  if (all > shown) out += " and " + std::to_string(all - shown) + " more";
  return out;
}

std::string ranks_text(const Json& ranks, std::optional<std::int64_t> total) {
  const auto all = total.value_or(static_cast<std::int64_t>(ranks.is_array() ? ranks.size() : 0));
  return (all == 1 ? "rank " : "ranks ") + listed(ranks, kRanksNamed, all);
}

std::string counted(std::int64_t n, std::string_view word) {
  return std::to_string(n) + " " + std::string(word) + (n == 1 ? "" : "s");
}

}  // namespace laggard::client
