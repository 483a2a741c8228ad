// A measured number together with how it came in.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace laggard {

/// Absent, null, text, negative and non-finite are five different things, and none of them is 0.
enum class ValueState : std::uint8_t { valid, absent, null, text, negative, non_finite };

// A value is one double everywhere: in a record, on the wire, in a block. The three states that no number
// can express are NaNs with a payload of their own, so that a column of doubles needs nothing beside it. A
// NaN that somebody measured has the payload 0.
inline constexpr std::uint64_t kAbsentBits = 0x7ff8'6c61'6700'0001;
inline constexpr std::uint64_t kNullBits = 0x7ff8'6c61'6700'0002;
inline constexpr std::uint64_t kTextBits = 0x7ff8'6c61'6700'0003;

inline constexpr double kAbsent = std::bit_cast<double>(kAbsentBits);
inline constexpr double kNull = std::bit_cast<double>(kNullBits);
inline constexpr double kText = std::bit_cast<double>(kTextBits);

/// True for a finite number that is not negative: the only values that any figure is computed from.
constexpr bool is_valid(double value) { return value >= 0 && value <= std::numeric_limits<double>::max(); }

constexpr ValueState state_of(double value) {
  if (is_valid(value)) return ValueState::valid;
  switch (std::bit_cast<std::uint64_t>(value)) {
    case kAbsentBits:
      return ValueState::absent;
    case kNullBits:
      return ValueState::null;
    case kTextBits:
      return ValueState::text;
    default:
      break;
  }
  if (value < 0 && value >= std::numeric_limits<double>::lowest()) return ValueState::negative;
  return ValueState::non_finite;
}

/// True for what was measured or written but cannot be used: negative, non-finite or text. A null or an
/// absent value is missing, not invalid.
constexpr bool is_invalid(double value) {
  const ValueState state = state_of(value);
  return state == ValueState::negative || state == ValueState::non_finite || state == ValueState::text;
}

/// The state's name in JSON and on screens.
constexpr const char* name_of(ValueState state) {
  switch (state) {
    case ValueState::valid:
      return "valid";
    case ValueState::absent:
      return "absent";
    case ValueState::null:
      return "null";
    case ValueState::text:
      return "text";
    case ValueState::negative:
      return "negative";
    case ValueState::non_finite:
      return "non-finite";
  }
  return "?";
}

}  // namespace laggard
