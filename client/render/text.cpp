#include "client/render/text.h"

#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cwchar>

namespace laggard::client {
namespace {

struct Decoded {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

// One code point from the front of `text`; strict: no overlong forms, no surrogates.
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  char32_t code = first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3fU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes, true};
}

bool is_harmful(char32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  // Marks that change the direction or end the line: a name could reorder what stands beside it.
  return code == 0x61c || (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

std::string escaped(char32_t code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, code < 0x100 ? "\\x%02x" : "\\u%04x", static_cast<unsigned>(code));
  return buffer;
}

// wcwidth() asks the thread's locale; the user's may be "C", which knows no width beyond ASCII.
class Utf8Locale {
 public:
  Utf8Locale() : previous_(uselocale(utf8())) {}
  ~Utf8Locale() { uselocale(previous_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  static locale_t utf8() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    return locale;
  }
  locale_t previous_;
};

std::size_t width_of(char32_t code) {
  const int width = wcwidth(static_cast<wchar_t>(code));
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (!next.valid) {
      out += escaped(static_cast<unsigned char>(text.front()));
    } else if (is_harmful(next.code)) {
      out += escaped(next.code);
    } else {
      out += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return out;
}

std::string printable_json(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const Decoded next = decode(json);
    // Below 0x20 stand only the line ends between the values: inside a text JSON has escaped them.
    if (next.valid && next.code >= 0x7f && is_harmful(next.code)) {
      char buffer[16];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(next.code));
      out += buffer;
    } else {
      out += json.substr(0, next.bytes);
    }
    json.remove_prefix(next.bytes);
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  const Utf8Locale locale;
  std::size_t width = 0;
  while (!text.empty()) {
    const Decoded next = decode(text);
    width += width_of(next.code);
    text.remove_prefix(next.bytes);
  }
  return width;
}

std::string shorten(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  const Utf8Locale locale;
  std::string out;
  for (std::size_t used = 1; !text.empty();) {
    const Decoded next = decode(text);
    used += width_of(next.code);
    if (used > width) break;
    out += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return out + "…";
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    const std::size_t word_width = display_width(word);
    if (used > 0 && used + 1 + word_width > width) {
      lines.emplace_back();
      used = 0;
    }
    if (used > 0) {
      lines.back() += ' ';
      ++used;
    }
    lines.back() += word;
    used += word_width;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string spaces(std::size_t n) { return std::string(n, ' '); }

}  // namespace laggard::client
