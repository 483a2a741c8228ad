#include "client/render/output.h"

#include <algorithm>

#include "client/render/json_text.h"
#include "client/render/text.h"
#include "client/render/writers.h"

namespace laggard::client {
namespace {

// A terminal so narrow that labels leave no room still gets this much text on a line.
constexpr std::size_t kLeastLine = 30;

std::vector<std::string> lines_of(const std::string& text, std::size_t indent, const OutputStyle& style) {
  const std::string safe = printable(text);
  if (!style.terminal) return {safe};
  return wrap(safe, std::max(kLeastLine, style.columns - std::min(style.columns, indent)));
}

std::string as_text(const Facts& facts, const OutputStyle& style) {
  std::size_t indent = 0;
  for (const Fact& fact : facts) {
    if (!fact.label.empty()) indent = std::max(indent, display_width(printable(fact.label)) + 2);
  }
  std::string out;
  for (const Fact& fact : facts) {
    const std::string name = printable(fact.label);
    std::string label = toned(name, Tone::strong, style.color) + spaces(indent - display_width(name));
    for (const std::string& line : lines_of(fact.text, indent, style)) {
      out += label + toned(line, fact.tone, style.color) + '\n';
      label = spaces(indent);
    }
  }
  return out;
}

std::string as_text(const Table& table, const OutputStyle& style) {
  std::string out;
  if (!table.title.empty()) out += toned(printable(table.title), Tone::strong, style.color) + '\n';
  TextStyle text_style{.columns = std::nullopt, .color = style.color};
  if (style.terminal) text_style.columns = style.columns;
  return out + text_table(table, text_style);
}

std::string as_text(const Notes& notes, const OutputStyle& style) {
  std::string out;
  for (const std::string& note : notes.lines) {
    std::string bullet = "- ";
    for (const std::string& line : lines_of(note, 2, style)) {
      out += toned(bullet + line, Tone::dim, style.color) + '\n';
      bullet = "  ";
    }
  }
  return out;
}

std::string as_markdown(const Facts& facts) {
  const bool labelled =
      std::any_of(facts.begin(), facts.end(), [](const Fact& f) { return !f.label.empty(); });
  if (!labelled) {
    std::string lines;
    for (const Fact& fact : facts) lines += markdown_text(fact.text) + '\n';
    return lines;
  }
  // A table of one row a fact: the cells' escapes keep a name from being read as Markdown.
  Table table{"", {{"what", "what", Align::left}, {"value", "value", Align::left}}, {}};
  for (const Fact& fact : facts) table.rows.push_back({fact.label, fact.text});
  return markdown_table(table);
}

std::string as_markdown(const Table& table) {
  return (table.title.empty() ? "" : "**" + markdown_text(table.title) + "**\n\n") + markdown_table(table);
}

std::string as_markdown(const Notes& notes) {
  std::string out;
  for (const std::string& note : notes.lines) out += "- " + markdown_text(note) + '\n';
  return out;
}

bool is_empty(const Block& block) {
  if (const auto* facts = std::get_if<Facts>(&block)) return facts->empty();
  if (const auto* notes = std::get_if<Notes>(&block)) return notes->lines.empty();
  return false;
}

std::string for_people(const View& view, const OutputStyle& style) {
  std::string out;
  for (const Block& block : view.screen) {
    if (is_empty(block)) continue;
    if (!out.empty()) out += '\n';
    out += std::visit(
        [&](const auto& part) {
          return style.format == Format::markdown ? as_markdown(part) : as_text(part, style);
        },
        block);
  }
  return out;
}

}  // namespace

std::string write_view(const View& view, const OutputStyle& style) {
  switch (style.format) {
    case Format::table:
    case Format::markdown:
      return for_people(view, style);
    case Format::json:
      return json_text(view.json, 2) + '\n';
    case Format::jsonl:
      return json_lines(view.rows);
    case Format::csv:
      return csv_table(view.rows, style.terminal);
  }
  return "";
}

}  // namespace laggard::client
