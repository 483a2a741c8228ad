#include "agent/json_line.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

using nlohmann::json;
namespace ondemand = simdjson::ondemand;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// How many digits a text begins with.
std::size_t digits(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

// Takes JSON's form of an integer off the front of a text; false when there is none.
bool take_integer(std::string_view& text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t count = digits(text);
  if (count == 0 || (count > 1 && text[0] == '0')) return false;
  text.remove_prefix(count);
  return true;
}

// True for JSON's form of an integer, which simdjson refuses when it needs more than 64 bits.
bool is_integer_text(std::string_view text) { return take_integer(text) && text.empty(); }

// True for JSON's form of any number, which simdjson refuses when no double is as large.
bool is_number_text(std::string_view text) {
  if (!take_integer(text)) return false;
  if (text.starts_with('.')) {
    const std::size_t count = digits(text.substr(1));
    if (count == 0) return false;
    text.remove_prefix(1 + count);
  }
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && digits(text) == text.size();
}

std::string_view trimmed_token(std::string_view token) {
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
}

void write_specials_as_text(json& value) {
  if (value.is_structured()) {
    for (json& element : value) write_specials_as_text(element);
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    value = std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
}

}  // namespace

ondemand::document& JsonLine::load(std::string_view text) {
  refusal_ = {};
  buffer_.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  buffer_ = text;
  specials_.take_from(buffer_);
  document_ = parser_.iterate(buffer_.data(), buffer_.size(), buffer_.capacity());
  return document_;
}

Scalar JsonLine::scalar(Value value) const {
  if (value.type() != ondemand::json_type::number) return {};
  if (!specials_.empty()) {
    const char* place = value.raw_json_token().data();
    if (const double* special = specials_.find(static_cast<std::size_t>(place - buffer_.data())))
      return {Scalar::Kind::real, 0, *special};
  }
  ondemand::number number;
  if (value.get_number().get(number) != simdjson::SUCCESS || number.is_uint64()) return {};
  if (number.is_int64()) return {Scalar::Kind::integer, number.get_int64(), 0};
  return {Scalar::Kind::real, 0, number.get_double()};
}

bool JsonLine::is_integer(Value value) const {
  return value.type() == ondemand::json_type::number &&
         is_integer_text(trimmed_token(value.raw_json_token()));
}

json JsonLine::number_to_json(Value value) {
  const Scalar number = scalar(value);
  if (number.kind == Scalar::Kind::real) return number.real;
  if (number.kind == Scalar::Kind::integer) return number.integer;
  std::uint64_t large = 0;
  if (value.get_uint64().get(large) == simdjson::SUCCESS) return large;
  const std::string_view token = trimmed_token(value.raw_json_token());
  if (is_integer_text(token)) return token;
  if (!is_number_text(token)) throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
  refusal_ = "number out of range";
  return nullptr;
}

json JsonLine::to_json(Object object, int depth) {
  json out = json::object();
  for (auto field : object) {
    const std::string key(std::string_view(field.unescaped_key()));
    if (key.size() > limits::kMaxNameBytes) refusal_ = "name too long";
    out[key] = to_json(Value(field.value()), depth + 1);
  }
  return out;
}

json JsonLine::to_json(Value value, int depth) {
  if (depth > limits::kMaxJsonDepth) {
    refusal_ = "nested too deeply";
    return nullptr;
  }
  switch (value.type()) {
    case ondemand::json_type::object:
      return to_json(value.get_object(), depth);
    case ondemand::json_type::array: {
      json out = json::array();
      for (Value element : value.get_array()) out.push_back(to_json(element, depth + 1));
      return out;
    }
    case ondemand::json_type::number:
      return number_to_json(value);
    case ondemand::json_type::string:
      return std::string_view(value.get_string());
    case ondemand::json_type::boolean:
      return bool(value.get_bool());
    case ondemand::json_type::null:
      break;
  }
  if (!value.is_null()) throw simdjson::simdjson_error(simdjson::N_ATOM_ERROR);
  return nullptr;
}

std::string dump(json value) {
  write_specials_as_text(value);
  return value.dump();
}

}  // namespace laggard::agent
