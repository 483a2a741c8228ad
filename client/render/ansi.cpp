#include "client/render/ansi.h"

namespace laggard::client {
namespace {

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::strong:
      return "\x1b[1m";
    case Tone::dim:
      return "\x1b[2m";
    case Tone::good:
      return "\x1b[32m";
    case Tone::warn:
      return "\x1b[33m";
    case Tone::bad:
      return "\x1b[31m";
  }
  return "";
}

}  // namespace

std::string toned(std::string_view text, Tone tone, bool color) {
  if (!color || tone == Tone::plain || text.empty()) return std::string(text);
  return std::string(code_of(tone)).append(text).append("\x1b[0m");
}

}  // namespace laggard::client
