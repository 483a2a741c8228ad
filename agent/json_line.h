// A line's JSON as simdjson reads it, with what simdjson refuses and Python writes.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "agent/special_numbers.h"

namespace laggard::agent {

/// What stands where a number may stand.
struct Scalar {
  enum class Kind : std::uint8_t {
    integer,  ///< of 64 bits
    real,
    other,  ///< no number, or an integer of more bits: its value can still be read
  };
  Kind kind = Kind::other;
  std::int64_t integer = 0;
  double real = 0;
};

/// One JSON text. Errors arrive as simdjson_error and mean that it is none.
class JsonLine {
 public:
  using Value = simdjson::ondemand::value;
  using Object = simdjson::ondemand::object;

  /// Copies the text and begins to read it.
  simdjson::ondemand::document& load(std::string_view text);

  Scalar scalar(Value value) const;
  /// True for an integer of any size.
  bool is_integer(Value value) const;
  /// The whole value. Of a repeated key the last one wins; an integer that needs more than 64 bits is a text;
  /// NaN and the infinities are doubles, which JSON cannot express: see dump().
  nlohmann::json to_json(Value value, int depth);
  nlohmann::json to_json(Object object, int depth);

  /// Why something in the text that to_json() read is refused; "" when nothing is.
  std::string_view refusal() const { return refusal_; }

 private:
  nlohmann::json number_to_json(Value value);

  simdjson::ondemand::parser parser_;
  simdjson::ondemand::document document_;
  std::string buffer_;
  SpecialNumbers specials_;
  std::string_view refusal_;
};

/// Compact JSON text, keys sorted, with NaN and the infinities as texts.
std::string dump(nlohmann::json value);

}  // namespace laggard::agent
