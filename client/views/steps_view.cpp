#include "client/views/stage_tree.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

std::vector<Cell> step_cells(const Json& step) {
  const Json& wall = at(step, "wall");
  const Json& culprit = at(step, "culprit");
  const Json& tie = at(step, "near_tie");
  Cell state(text(at(step, "state")), step_tone(at(step, "state")));
  return {integer_cell(at(step, "step")),
          state,
          integer_cell(at(step, "present")),
          integer_cell(at(step, "expected")),
          real_cell(at(wall, "max_ms"), 3),
          real_cell(at(wall, "median_ms"), 3),
          real_cell(at(wall, "min_ms"), 3),
          real_cell(at(wall, "mean_ms"), kShortest),
          at(step, "slowest_rank").is_null() ? Cell() : Cell(slowest_name(step)),
          integer_cell(at(step, "slowest_rank")),
          tie.is_boolean() ? Cell(truth(tie)) : Cell(),
          integer_cell(at(culprit, "rank")),
          text_cell(at(culprit, "stage")),
          real_cell(at(culprit, "own_excess_ms"), 1),
          listed(at(step, "tags"), 8),
          listed(at(step, "missing"), 16, integer(at(step, "missing_count")))};
}

}  // namespace

View steps_view(const Json& steps) {
  Table table{"",
              {{"step", "step"},
               {"state", "state", Align::left},
               {"present", "in"},
               {"expected", "of"},
               {"wall_max_ms", "wall max ms"},
               {"wall_median_ms", "median", Align::right, Show::wide},
               {"wall_min_ms", "min", Align::right, Show::wide},
               {"wall_mean_ms", "mean", Align::right, Show::programs},
               {"slowest", "slowest", Align::right, Show::people},
               {"slowest_rank", "slowest", Align::right, Show::programs},
               {"near_tie", "near tie", Align::left, Show::programs},
               {"culprit_rank", "culprit"},
               {"culprit_stage", "its stage", Align::left},
               {"culprit_excess_ms", "own excess ms"},
               {"remarks", "remarks", Align::left, Show::wide},
               {"missing", "missing ranks", Align::left, Show::wide}},
              {}};
  const Json& list = at(steps, "steps");
  if (list.is_array()) {
    for (const Json& step : list) table.rows.push_back(step_cells(step));
  }
  return {{table}, table, steps};
}

}  // namespace laggard::client
