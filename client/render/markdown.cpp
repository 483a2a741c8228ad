#include <cctype>

#include "client/render/text.h"
#include "client/render/writers.h"

namespace laggard::client {
namespace {

bool is_word(std::string_view text, std::size_t at) {
  return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

// An underscore inside a word is no emphasis, and stage names are full of them.
bool needs_escape(std::string_view text, std::size_t at) {
  if (text[at] == '_') return !(at > 0 && is_word(text, at - 1) && is_word(text, at + 1));
  return std::string_view("\\`*[]<>|~&#!@").find(text[at]) != std::string_view::npos;
}

// '@' has no backslash form that stops GitHub from telling the person of that name; an entity does.
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '@') {
      out += "&#64;";
      continue;
    }
    if (needs_escape(text, i)) out += '\\';
    out += text[i];
  }
  return out;
}

}  // namespace

std::string markdown_text(std::string_view text) { return escaped(printable(text)); }

namespace {

std::string people_text(const Cell& cell) {
  std::string out;
  for (int i = 0; i < cell.indent; ++i) out += "&nbsp;&nbsp;";
  out += escaped(cell_text(cell));
  if (!cell.note.empty()) out += ' ' + escaped(cell.note);
  return out;
}

}  // namespace

std::string markdown_table(const Table& table) {
  std::string header = "|", rule = "|", rows;
  for (const Column& column : table.columns) {
    if (column.show == Show::programs) continue;
    header += ' ' + markdown_text(column.title) + " |";
    rule += column.align == Align::right ? "---:|" : "---|";
  }
  for (const auto& row : table.rows) {
    rows += '|';
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (table.columns[i].show != Show::programs) rows += ' ' + people_text(row[i]) + " |";
    }
    rows += '\n';
  }
  return header + '\n' + rule + '\n' + rows;
}

}  // namespace laggard::client
