#include "client/render/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace laggard::client {
namespace {

// A double's integer part has at most 309 digits.
using Buffer = std::array<char, 400>;

std::string non_finite(double value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace

std::string shortest(double value) {
  if (!std::isfinite(value)) return non_finite(value);
  Buffer buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return non_finite(value);
  Buffer buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  const std::string_view text(buffer.data(), end.ptr);
  // What rounds to 0 has no sign.
  const bool is_zero = text.find_first_not_of("-0.") == std::string_view::npos;
  return std::string(is_zero && text.starts_with('-') ? text.substr(1) : text);
}

std::string age(std::int64_t ms) {
  // The collector's clock may have been set back since; an age below zero says nothing.
  ms = std::max<std::int64_t>(ms, 0);
  const std::int64_t s = ms / 1000, min = s / 60, h = min / 60, d = h / 24;
  const std::int64_t tenths = ms / 100;
  if (s < 10) return fixed(static_cast<double>(tenths) / 10, 1) + " s";
  if (min == 0) return std::to_string(s) + " s";
  if (h == 0) return std::to_string(min) + " min " + std::to_string(s % 60) + " s";
  if (d == 0) return std::to_string(h) + " h " + std::to_string(min % 60) + " min";
  return std::to_string(d) + " d " + std::to_string(h % 24) + " h";
}

}  // namespace laggard::client
