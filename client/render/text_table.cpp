#include <algorithm>
#include <numeric>

#include "client/render/number.h"
#include "client/render/text.h"
#include "client/render/writers.h"

namespace laggard::client {
namespace {

constexpr std::size_t kGap = 2;
// Below this even a narrow terminal cuts no text.
constexpr std::size_t kLeastTextWidth = 16;

struct Widths {
  std::size_t value = 0, note = 0;
  std::size_t total() const { return value + (note > 0 ? note + 1 : 0); }
};

// The table as strings, with the width of each column.
struct Layout {
  std::vector<std::vector<std::string>> texts;
  std::vector<Widths> widths;
};

Layout lay_out(const Table& table, const TextStyle& style) {
  Layout layout;
  for (const Column& column : table.columns) layout.widths.push_back({display_width(column.title), 0});
  for (const auto& row : table.rows) {
    auto& texts = layout.texts.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string text = spaces(2 * static_cast<std::size_t>(row[i].indent)) + cell_text(row[i]);
      if (style.columns) text = shorten(text, std::max(kLeastTextWidth, *style.columns / 2));
      layout.widths[i].value = std::max(layout.widths[i].value, display_width(text));
      layout.widths[i].note = std::max(layout.widths[i].note, display_width(row[i].note));
      texts.push_back(std::move(text));
    }
  }
  return layout;
}

using Indices = std::vector<std::size_t>;

std::size_t width_of(const Indices& columns, const Layout& layout) {
  std::size_t width = 0;
  for (const std::size_t i : columns) width += layout.widths[i].total() + kGap;
  return width > 0 ? width - kGap : 0;
}

// Takes away the `wide` columns, the last one first, until the rest fits; their titles are returned.
std::vector<std::string> drop_wide(Indices& columns, const Table& table, const Layout& layout,
                                   std::size_t room) {
  std::vector<std::string> dropped;
  for (std::size_t at = columns.size(); at-- > 0 && width_of(columns, layout) > room;) {
    const Column& column = table.columns[columns[at]];
    if (column.show != Show::wide) continue;
    dropped.insert(dropped.begin(), column.title);
    columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return dropped;
}

std::vector<Indices> into_panels(const Indices& columns, const Layout& layout, std::size_t room) {
  std::vector<Indices> panels(1);
  for (const std::size_t column : columns) {
    Indices wider = panels.back();
    wider.push_back(column);
    if (wider.size() > 2 && width_of(wider, layout) > room) {
      panels.push_back({columns.front(), column});
    } else {
      panels.back() = std::move(wider);
    }
  }
  return panels;
}

std::string aligned(const std::string& text, Align align, std::size_t width) {
  const std::string fill = spaces(width - std::min(width, display_width(text)));
  return align == Align::right ? fill + text : text + fill;
}

void end_line(std::string& out) {
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

void write_header(std::string& out, const Table& table, const Indices& panel, const Layout& layout,
                  const TextStyle& style) {
  std::string rule;
  for (const std::size_t i : panel) {
    const Column& column = table.columns[i];
    if (i != panel.front()) {
      out += spaces(kGap);
      rule += spaces(kGap);
    }
    const std::string title = aligned(column.title, column.align, layout.widths[i].value);
    out +=
        toned(title, Tone::strong, style.color) + spaces(layout.widths[i].total() - layout.widths[i].value);
    rule += std::string(layout.widths[i].total(), '-');
  }
  end_line(out);
  out += toned(rule, Tone::dim, style.color) + "\n";
}

void write_panel(std::string& out, const Table& table, const Indices& panel, const Layout& layout,
                 const TextStyle& style) {
  write_header(out, table, panel, layout, style);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::string line;
    for (const std::size_t i : panel) {
      const Cell& cell = table.rows[row][i];
      const Widths& widths = layout.widths[i];
      if (i != panel.front()) line += spaces(kGap);
      line +=
          toned(aligned(layout.texts[row][i], table.columns[i].align, widths.value), cell.tone, style.color);
      if (widths.note > 0)
        line += ' ' + toned(aligned(cell.note, Align::left, widths.note), Tone::dim, style.color);
    }
    end_line(line);
    out += line;
  }
}

}  // namespace

std::string cell_text(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell.value)) return printable(*text);
  if (const auto* number = std::get_if<std::int64_t>(&cell.value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&cell.value)) {
    return cell.digits == kShortest ? shortest(*number) : fixed(*number, cell.digits);
  }
  if (const auto* truth = std::get_if<bool>(&cell.value)) return *truth ? "yes" : "no";
  return "-";
}

std::string text_table(const Table& source, const TextStyle& style) {
  Table table = source;
  for (Column& column : table.columns) column.title = printable(column.title);
  const Layout layout = lay_out(table, style);
  Indices columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].show != Show::programs) columns.push_back(i);
  }
  std::vector<std::string> dropped;
  std::vector<Indices> panels = {columns};
  if (style.columns) {
    dropped = drop_wide(columns, table, layout, *style.columns);
    panels = into_panels(columns, layout, *style.columns);
  }
  std::string out;
  for (const Indices& panel : panels) {
    if (!out.empty()) out += '\n';
    write_panel(out, table, panel, layout, style);
  }
  if (!dropped.empty()) {
    std::string names;
    for (const auto& title : dropped) names += (names.empty() ? "" : ", ") + title;
    out += toned("(too narrow for: " + names + ")", Tone::dim, style.color) + "\n";
  }
  return out;
}

}  // namespace laggard::client
