#include "agent/utf8.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace laggard::agent {
namespace {

constexpr std::size_t kMaxCharacterBytes = 4;

// Bytes of the character at the front; 0 when there is none.
std::size_t character_size(std::string_view text) {
  for (std::size_t size = 1; size <= std::min(kMaxCharacterBytes, text.size()); ++size)
    if (is_utf8(text.substr(0, size))) return size;
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string escape_to_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size > 0) {
      out += text.substr(0, size);
    } else {
      std::array<char, 5> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(text.front()));
      out += escaped.data();
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

}  // namespace laggard::agent
