#include "client/render/number.h"
#include "client/render/text.h"
#include "client/render/writers.h"

namespace laggard::client {
namespace {

std::string quoted(std::string text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
  return '"' + text + '"';
}

std::string text_field(std::string text, bool for_terminal) {
  if (for_terminal) text = printable(text);
  // What Excel and LibreOffice take for the start of a formula.
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) {
    text.insert(0, 1, '\'');
  }
  return quoted(std::move(text));
}

std::string field(const Cell& cell, bool for_terminal) {
  if (const auto* text = std::get_if<std::string>(&cell.value)) return text_field(*text, for_terminal);
  if (const auto* number = std::get_if<std::int64_t>(&cell.value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&cell.value)) return shortest(*number);
  if (const auto* truth = std::get_if<bool>(&cell.value)) return *truth ? "true" : "false";
  return "";
}

}  // namespace

std::string csv_table(const Table& table, bool for_terminal) {
  std::string out;
  const auto add_line = [&](auto&& field_of) {
    bool first = true;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].show == Show::people) continue;
      if (!first) out += ',';
      first = false;
      out += field_of(i);
    }
    out += '\n';
  };
  add_line([&](std::size_t i) { return text_field(table.columns[i].key, for_terminal); });
  for (const auto& row : table.rows) {
    add_line([&](std::size_t i) { return field(row[i], for_terminal); });
  }
  return out;
}

}  // namespace laggard::client
