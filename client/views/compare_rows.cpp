// A comparison for programs: one row a figure, each with what came of the match check.
#include "client/views/views.h"

namespace laggard::client {
namespace {

Cell exact(const Json& row, const char* key) { return real_cell(at(row, key), kShortest); }

std::vector<Cell> row_cells(const Json& row, const std::string& match) {
  const bool is_stage = text(at(row, "figure")) == "stage";
  return {match,
          text_cell(at(row, "figure")),
          is_stage ? text_cell(at(row, "stage")) : text_cell(at(row, "figure")),
          text_cell(at(row, "clock")),
          text_cell(at(row, "parent")),
          Cell(truth(at(row, "exclusive"))),
          text_cell(at(row, "unit")),
          exact(row, "base"),
          exact(row, "new"),
          exact(row, "difference"),
          exact(row, "difference_percent"),
          exact(row, "low"),
          exact(row, "high"),
          text_cell(at(row, "estimate")),
          exact(row, "spread"),
          exact(row, "hodges_lehmann"),
          exact(row, "rank_p"),
          text_cell(at(row, "finding")),
          Cell(truth(at(row, "cause"))),
          integer_cell(at(row, "present")),
          integer_cell(at(row, "of"))};
}

}  // namespace

Table compare_rows(const Json& comparison) {
  const Align left = Align::left;
  Table table{"",
              {{"match", "match", left},
               {"figure", "figure", left},
               {"name", "name", left},
               {"clock", "clock", left},
               {"parent", "inside", left},
               {"exclusive", "exclusive", left},
               {"unit", "unit", left},
               {"base", "base"},
               {"new", "new"},
               {"difference", "difference"},
               {"difference_percent", "%"},
               {"low", "low"},
               {"high", "high"},
               {"estimate", "estimate", left},
               {"spread", "spread"},
               {"hodges_lehmann", "Hodges-Lehmann"},
               {"rank_p", "p"},
               {"finding", "finding", left},
               {"cause", "cause", left},
               {"present", "present"},
               {"of", "of"}},
              {}};
  const std::string match = truth(at(at(comparison, "match"), "pass")) ? "pass" : "FAIL";
  if (const Json& rows = at(comparison, "rows"); rows.is_array())
    for (const Json& row : rows) table.rows.push_back(row_cells(row, match));
  if (const Json& counts = at(comparison, "counts"); counts.is_array()) {
    for (const Json& count : counts) {
      std::vector<Cell> cells(table.columns.size());
      cells[0] = match;
      cells[1] = Cell(text(at(count, "unit")) == "%" ? "ratio" : "count");
      cells[2] = text_cell(at(count, "name"));
      cells[6] = text_cell(at(count, "unit"));
      cells[7] = exact(count, "base");
      cells[8] = exact(count, "new");
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

}  // namespace laggard::client
