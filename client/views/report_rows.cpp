// A report for programs: one row a figure, so that every run has the same columns whatever it measured.
#include "client/views/views.h"

namespace laggard::client {
namespace {

struct Row {
  std::string section, name;
  Cell key, clock, parent, value, present, of;
};

void add(Table& table, const Json& run, Row row) {
  table.rows.push_back({text_cell(at(run, "run")), integer_cell(at(run, "attempt")), std::move(row.section),
                        std::move(row.name), row.key, row.clock, row.parent, row.value, row.present, row.of});
}

Cell value_cell(const Json& value) {
  return integer(value) ? integer_cell(value) : real_cell(value, kShortest);
}

void add_figures(Table& table, const Json& run) {
  for (const char* name :
       {"world_size", "steps", "max_rank_wall_s", "samples_per_s", "global_batch", "largest_rank_mean_s",
        "median_wall_s", "all_steps_mean_s", "all_steps_median_s", "invalid_values"}) {
    add(table, run, {.section = "run", .name = name, .value = value_cell(at(run, name))});
  }
  const Json& ratios = at(run, "ratios");
  if (!ratios.is_array()) return;
  for (const Json& ratio : ratios) {
    add(table, run,
        {.section = "ratio", .name = text(at(ratio, "name")), .value = value_cell(at(ratio, "percent"))});
  }
}

void add_stages(Table& table, const Json& run) {
  const Json& stages = at(run, "stages");
  if (!stages.is_array()) return;
  for (const Json& stage : stages) {
    add(table, run,
        {.section = truth(at(stage, "exclusive")) ? "exclusive_mean_s" : "stage_mean_s",
         .name = text(at(stage, "stage")),
         .clock = text_cell(at(stage, "clock")),
         .parent = text_cell(at(stage, "parent")),
         .value = value_cell(at(stage, "mean_s")),
         .present = integer_cell(at(stage, "present")),
         .of = integer_cell(at(stage, "of"))});
  }
}

void add_rank_walls(Table& table, const Json& run) {
  const Json& walls = at(run, "rank_walls");
  if (!walls.is_array()) return;
  for (const Json& wall : walls) {
    add(table, run,
        {.section = "rank_wall_mean_s",
         .name = "rank",
         .key = integer_cell(at(wall, "rank")),
         .value = value_cell(at(wall, "mean_s")),
         .present = integer_cell(at(wall, "steps")),
         .of = integer_cell(at(run, "steps"))});
  }
}

void add_counts(Table& table, const Json& run) {
  const Json& sums = at(run, "count_sums");
  if (sums.is_object()) {
    for (const auto& [name, n] : sums.items()) {
      add(table, run, {.section = "count_sum", .name = name, .value = value_cell(n)});
    }
  }
  const Json& histograms = at(run, "histograms");
  if (!histograms.is_object()) return;
  for (const auto& [name, bins] : histograms.items()) {
    if (!bins.is_object()) continue;
    for (const auto& [key, n] : bins.items()) {
      add(table, run, {.section = "histogram", .name = name, .key = Cell(key), .value = value_cell(n)});
    }
  }
}

}  // namespace

Table report_rows(const Json& report) {
  const Align left = Align::left;
  Table table{"",
              {{"run", "run", left},
               {"attempt", "attempt"},
               {"section", "section", left},
               {"name", "name", left},
               {"key", "key", left},
               {"clock", "clock", left},
               {"parent", "inside", left},
               {"value", "value"},
               {"present", "present"},
               {"of", "of"}},
              {}};
  const Json& runs = at(report, "runs");
  if (!runs.is_array()) return table;
  for (const Json& run : runs) {
    add_figures(table, run);
    add_stages(table, run);
    add_rank_walls(table, run);
    add_counts(table, run);
  }
  return table;
}

}  // namespace laggard::client
