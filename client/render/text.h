// Text of unknown origin on a terminal: harmless, and as wide as it looks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::client {

/// The text with every control character, direction override and broken UTF-8 byte written as an escape
/// (`\x1b`, `\u202e`): names come from anybody's training script, and a terminal obeys what it is sent.
std::string printable(std::string_view text);

/// JSON text with the same characters written as `\u202e`, which JSON reads back as what they were.
std::string printable_json(std::string_view json);

/// Columns that printable UTF-8 text takes on a terminal: 2 for wide characters, 0 for combining ones.
std::size_t display_width(std::string_view text);

/// The text cut to at most `width` columns, ending in "…" when something was cut.
std::string shorten(std::string_view text, std::size_t width);

/// The text broken at spaces into lines of at most `width` columns; a longer word stays whole.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

std::string spaces(std::size_t n);

}  // namespace laggard::client
