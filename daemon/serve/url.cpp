#include "daemon/serve/url.h"

#include <charconv>

namespace laggard::serve {
namespace {

/// In a query a plus stands for a space: browsers write it so.
std::optional<std::string> decode(std::string_view text, bool in_query) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && in_query) {
      out += ' ';
    } else if (text[i] == '%') {
      if (text.size() - i < 3) return std::nullopt;
      unsigned char byte = 0;
      const char* first = text.data() + i + 1;
      const auto [end, error] = std::from_chars(first, first + 2, byte, 16);
      if (error != std::errc{} || end != first + 2) return std::nullopt;
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// Calls `take` for each part of the text between separators; false as soon as it says false.
template <typename Take>
bool each_part(std::string_view text, char separator, Take take) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (!take(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<Url> parse_url(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  const std::size_t question = target.find('?');
  Url url;
  const bool path_read = each_part(target.substr(1, question - 1), '/', [&](std::string_view part) {
    auto segment = decode(part, false);
    if (!segment.has_value()) return false;
    url.path.push_back(std::move(*segment));
    return true;
  });
  if (!path_read) return std::nullopt;
  if (question == std::string_view::npos) return url;
  const bool query_read = each_part(target.substr(question + 1), '&', [&](std::string_view part) {
    const std::size_t equals = part.find('=');
    auto name = decode(part.substr(0, equals), true);
    auto value = decode(equals == std::string_view::npos ? "" : part.substr(equals + 1), true);
    if (!name.has_value() || !value.has_value()) return false;
    if (!name->empty()) url.query[*name] = *value;
    return true;
  });
  return query_read ? std::optional(std::move(url)) : std::nullopt;
}

}  // namespace laggard::serve
