#include "client/views/views.h"

namespace laggard::client {
namespace {

std::vector<Cell> stage_cells(const Json& stage) {
  Cell name = text_cell(at(stage, "stage"));
  if (const auto depth = integer(at(stage, "depth")); depth && *depth > 0 && *depth < 64) {
    name.indent = static_cast<int>(*depth);
  }
  std::string remarks;
  if (truth(at(stage, "exclusive"))) remarks = "rest";
  if (const auto n = integer(at(stage, "overlaps")); n && *n > 0) {
    remarks += (remarks.empty() ? "" : ", ") + std::string("overlap in ") + counted(*n, "step");
  }
  return {name,
          text_cell(at(stage, "parent")),
          integer_cell(at(stage, "depth")),
          text_cell(at(stage, "kind")),
          text_cell(at(stage, "clock")),
          Cell(truth(at(stage, "exclusive"))),
          real_cell(at(stage, "mean_ms"), 3),
          integer_cell(at(stage, "present")),
          integer_cell(at(stage, "of")),
          integer_cell(at(stage, "overlaps")),
          remarks};
}

}  // namespace

View stages_view(const Json& stages) {
  Table table{"",
              {{"stage", "stage", Align::left},
               {"parent", "inside", Align::left, Show::wide},
               {"depth", "depth", Align::right, Show::programs},
               {"kind", "kind", Align::left},
               {"clock", "clock", Align::left},
               {"exclusive", "exclusive", Align::left, Show::programs},
               {"mean_ms", "mean ms"},
               {"present", "in"},
               {"of", "of steps"},
               {"overlaps", "overlaps", Align::right, Show::programs},
               {"remarks", "", Align::left, Show::people}},
              {}};
  const Json& list = at(stages, "stages");
  if (list.is_array()) {
    for (const Json& stage : list) table.rows.push_back(stage_cells(stage));
  }
  const Json& window = at(stages, "window");
  Facts facts = {{"run", text(at(stages, "run")) + " | attempt " + text(at(stages, "attempt"))}};
  if (!at(window, "from").is_null()) {
    facts.push_back({"window", "steps " + text(at(window, "from")) + " to " + text(at(window, "to")) + " (" +
                                   text(at(window, "chosen")) + ")"});
  }
  Notes notes{
      {"Means over the steps, on each step's slowest rank, where an absent stage counts as 0; the column "
       "\"in\" says in how many steps it was there. Rows of different depth overlap: do not add them up.",
       "Stream time includes stalls and waits for other ranks."}};
  return {{facts, table, notes}, table, stages};
}

}  // namespace laggard::client
