// A table in each output form.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "client/render/table.h"

namespace laggard::client {

struct TextStyle {
  std::optional<std::size_t> columns;  ///< of the terminal; none: as wide as it has to be, nothing shortened
  bool color = false;
};

/// Aligned columns. On a terminal that is too narrow the `wide` columns go (and it says so), then the
/// rest is broken into panels that repeat the first column.
std::string text_table(const Table& table, const TextStyle& style);

/// A GitHub table, nothing in it read as Markdown.
std::string markdown_table(const Table& table);

/// Any text as the same text in Markdown.
std::string markdown_text(std::string_view text);

/// RFC 4180 with a header line, lines ended by LF. A text that a spreadsheet would run as a formula is given
/// a leading apostrophe. `for_terminal`: control characters are escaped.
std::string csv_table(const Table& table, bool for_terminal);

/// One JSON object a row.
std::string json_lines(const Table& table);

/// A cell for people, without its note; made harmless for a terminal.
std::string cell_text(const Cell& cell);

}  // namespace laggard::client
