// The published summary: what a report says to people.
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include "client/views/views.h"

namespace laggard::client {
namespace {

// The digits of the published tables.
constexpr int kWallDigits = 3, kRateDigits = 3, kPercentDigits = 2, kStageDigits = 4;
// A histogram with more keys than this is one line for people; programs get all of it.
constexpr std::size_t kHistogramKeysShown = 32;
constexpr std::size_t kStepsListed = 16;

using Runs = std::vector<const Json*>;

std::string run_title(const Json& run, const Runs& all) {
  const std::string name = text(at(run, "run"));
  const auto same = std::count_if(all.begin(), all.end(),
                                  [&](const Json* other) { return text(at(*other, "run")) == name; });
  const auto attempt = integer(at(run, "attempt"));
  return same > 1 || (attempt && *attempt > 1) ? name + "@" + text(at(run, "attempt")) : name;
}

// Whose figures are not about the whole job: this stands above them.
Facts absent_ranks(const Runs& runs) {
  Facts facts;
  for (const Json* run : runs) {
    const Json& never = at(*run, "never_reported");
    const Json& ranks = at(*run, "ranks");
    if (!never.is_array() || never.empty()) continue;
    const std::string world = at(*run, "world_size").is_null()
                                  ? std::to_string(never.size() + (ranks.is_array() ? ranks.size() : 0))
                                  : text(at(*run, "world_size"));
    facts.push_back({run_title(*run, runs),
                     std::to_string(ranks.is_array() ? ranks.size() : 0) + " of " + world +
                         " ranks; never reported: " + ranks_text(never),
                     Tone::warn});
  }
  return facts;
}

// Who held each run back.
Facts verdict_facts(const Runs& runs) {
  Facts facts;
  for (const Json* run : runs) {
    const Json& verdict = at(*run, "verdict");
    const std::string sentence = text(at(verdict, "sentence"));
    if (sentence.empty()) continue;
    facts.push_back({runs.size() == 1 ? "verdict" : "verdict of " + run_title(*run, runs), sentence,
                     verdict_tone(verdict)});
  }
  return facts;
}

// The names of all the runs' ratios, in the order of their first sight.
std::vector<std::string> ratio_names(const Runs& runs) {
  std::vector<std::string> names;
  for (const Json* run : runs) {
    const Json& ratios = at(*run, "ratios");
    if (!ratios.is_array()) continue;
    for (const Json& ratio : ratios) {
      const std::string name = text(at(ratio, "name"));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

const Json& percent_of(const Json& run, const std::string& name) {
  static const Json kNothing;
  const Json& ratios = at(run, "ratios");
  if (!ratios.is_array()) return kNothing;
  for (const Json& ratio : ratios) {
    if (text(at(ratio, "name")) == name) return at(ratio, "percent");
  }
  return kNothing;
}

Table figures_table(const Runs& runs) {
  const bool batches = std::any_of(runs.begin(), runs.end(), [](const Json* run) {
    return !at(at(*run, "settings"), "micro_batch").is_null();
  });
  Table table{"", {{"run", "run", Align::left}}, {}};
  if (batches) table.columns.push_back({"micro_batch", "BS"});
  table.columns.push_back({"max_rank_wall_s", "max-rank wall s/update"});
  table.columns.push_back({"samples_per_s", "samples/s"});
  const auto names = ratio_names(runs);
  for (const std::string& name : names) table.columns.push_back({name, name});
  table.columns.push_back({"steps", "steps"});
  for (const Json* run : runs) {
    std::vector<Cell> row = {run_title(*run, runs)};
    if (batches) row.push_back(text_cell(at(at(*run, "settings"), "micro_batch")));
    row.push_back(real_cell(at(*run, "max_rank_wall_s"), kWallDigits));
    row.push_back(real_cell(at(*run, "samples_per_s"), kRateDigits));
    for (const std::string& name : names) row.push_back(real_cell(percent_of(*run, name), kPercentDigits));
    row.push_back(integer_cell(at(*run, "steps")));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// A stage row's place in the table: which stage, on which clock, of one parent.
struct StageKey {
  std::string stage;
  std::string clock;
  bool operator==(const StageKey&) const = default;
};

using StageFilter = std::function<bool(const Json&)>;

std::vector<StageKey> stage_keys(const Runs& runs, const StageFilter& wanted) {
  std::vector<StageKey> keys;
  for (const Json* run : runs) {
    const Json& stages = at(*run, "stages");
    if (!stages.is_array()) continue;
    auto place = keys.begin();
    for (const Json& stage : stages) {
      if (!wanted(stage)) continue;
      const StageKey key{text(at(stage, "stage")), text(at(stage, "clock"))};
      const auto known = std::find(keys.begin(), keys.end(), key);
      // A stage that only a later run has goes where that run has it: behind the row before.
      place = known != keys.end() ? known + 1 : keys.insert(place, key) + 1;
    }
  }
  return keys;
}

const Json& stage_of(const Json& run, const StageKey& key) {
  static const Json kNothing;
  const Json& stages = at(run, "stages");
  if (!stages.is_array()) return kNothing;
  for (const Json& stage : stages) {
    if (text(at(stage, "stage")) == key.stage && text(at(stage, "clock")) == key.clock) return stage;
  }
  return kNothing;
}

Cell mean_cell(const Json& stage) {
  Cell cell = real_cell(at(stage, "mean_s"), kStageDigits);
  const auto present = integer(at(stage, "present")), of = integer(at(stage, "of"));
  if (present && of && *present < *of) {
    cell.note = "(" + std::to_string(*present) + " of " + std::to_string(*of) + ")";
  }
  if (const auto n = integer(at(stage, "overlaps")); n && *n > 0) {
    cell.tone = Tone::warn;
    cell.note += (cell.note.empty() ? "" : " ") + std::string("overlap");
  }
  return cell;
}

Table stage_table(const std::string& title, const Runs& runs, const StageFilter& wanted) {
  Table table{title, {{"stage", "stage", Align::left}}, {}};
  for (const Json* run : runs) table.columns.push_back({run_title(*run, runs), run_title(*run, runs)});
  table.columns.push_back({"parent", "inside", Align::left, Show::wide});
  for (const StageKey& key : stage_keys(runs, wanted)) {
    std::vector<Cell> row(1);
    Cell parent;
    for (const Json* run : runs) {
      const Json& stage = stage_of(*run, key);
      row.push_back(mean_cell(stage));
      if (stage.is_null() || std::holds_alternative<std::string>(row[0].value)) continue;
      row[0] = text_cell(at(stage, "stage"));
      row[0].indent =
          static_cast<int>(std::clamp<std::int64_t>(integer(at(stage, "depth")).value_or(0), 0, 64));
      parent = text_cell(at(stage, "parent"));
    }
    row.push_back(parent);
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_stage_tables(View& view, const Runs& runs, const std::vector<std::string>& order) {
  const std::set<std::string> published(order.begin(), order.end());
  const auto on = [](const char* clock) {
    return [clock](const Json& stage) { return text(at(stage, "clock")) == clock; };
  };
  const auto is_published = [&](const Json& stage) { return published.contains(text(at(stage, "stage"))); };
  const auto is_input = [](const Json& stage) {
    return text(at(stage, "kind")) == "input" && !truth(at(stage, "exclusive"));
  };
  const auto add = [&](const char* title, const StageFilter& wanted) {
    Table table = stage_table(title, runs, wanted);
    if (!table.rows.empty()) view.screen.emplace_back(std::move(table));
  };
  const StageFilter stream = on("stream"), host = on("host");
  const bool any_stream = !stage_keys(runs, stream).empty();
  const StageFilter main_clock = any_stream ? stream : host;
  const char* title = any_stream ? "Stages, s/update, stream clock" : "Stages, s/update, host clock";
  if (published.empty()) {
    add(title, main_clock);
  } else {
    add(title, [&](const Json& stage) { return main_clock(stage) && is_published(stage); });
    add("Other stages, s/update",
        [&](const Json& stage) { return main_clock(stage) && !is_published(stage); });
  }
  if (any_stream) {
    add("CPU batch-fetch (input stages), s/update, host clock",
        [&](const Json& stage) { return host(stage) && is_input(stage); });
  }
}

Table rank_walls_table(const Runs& runs) {
  Table table{"Mean wall of each rank, s/update", {{"rank", "rank"}}, {}};
  std::map<std::int64_t, std::vector<Cell>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    table.columns.push_back({run_title(*runs[i], runs), run_title(*runs[i], runs)});
    const Json& walls = at(*runs[i], "rank_walls");
    if (!walls.is_array()) continue;
    for (const Json& wall : walls) {
      const auto rank = integer(at(wall, "rank"));
      if (!rank) continue;
      auto& row = rows[*rank];
      row.resize(runs.size());
      row[i] = real_cell(at(wall, "mean_s"), kShortest);
      const auto steps = integer(at(wall, "steps")), all = integer(at(*runs[i], "steps"));
      if (steps && all && *steps < *all)
        row[i].note = "(" + std::to_string(*steps) + " of " + std::to_string(*all) + ")";
    }
  }
  for (auto& [rank, cells] : rows) {
    cells.insert(cells.begin(), Cell(rank));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table walls_table(const Runs& runs) {
  Table table{"Other walls, s/update",
              {{"run", "run", Align::left},
               {"median_wall_s", "median"},
               {"largest_rank_mean_s", "largest rank mean"},
               {"all_steps_mean_s", "mean of all steps"},
               {"all_steps_median_s", "median of all steps"}},
              {}};
  for (const Json* run : runs) {
    std::vector<Cell> row = {run_title(*run, runs)};
    for (const char* key :
         {"median_wall_s", "largest_rank_mean_s", "all_steps_mean_s", "all_steps_median_s"}) {
      row.push_back(real_cell(at(*run, key), kWallDigits));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Keys that are numbers come first, by their value.
struct KeyOrder {
  static std::pair<bool, double> rank_of(const std::string& key) {
    double value = 0;
    const auto end = std::from_chars(key.data(), key.data() + key.size(), value);
    const bool is_number = end.ec == std::errc{} && end.ptr == key.data() + key.size();
    return {!is_number, is_number ? value : 0};
  }
  bool operator()(const std::string& a, const std::string& b) const {
    return std::pair(rank_of(a), a) < std::pair(rank_of(b), b);
  }
};

void add_histograms(View& view, const Runs& runs) {
  std::map<std::string, std::map<std::string, std::vector<Cell>, KeyOrder>> histograms;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Json& all = at(*runs[i], "histograms");
    if (!all.is_object()) continue;
    for (const auto& [name, bins] : all.items()) {
      if (!bins.is_object()) continue;
      for (const auto& [key, n] : bins.items()) {
        auto& cells = histograms[name][key];
        cells.resize(runs.size());
        cells[i] = integer_cell(n);
      }
    }
  }
  Notes many;
  for (auto& [name, bins] : histograms) {
    if (bins.size() > kHistogramKeysShown) {
      many.lines.push_back(name + " has " + std::to_string(bins.size()) +
                           " different keys: -o csv lists them all");
      continue;
    }
    Table table{name + ", counts", {{"key", "key", Align::left}}, {}};
    for (const Json* run : runs) table.columns.push_back({run_title(*run, runs), run_title(*run, runs)});
    for (auto& [key, cells] : bins) {
      cells.insert(cells.begin(), Cell(key));
      table.rows.push_back(std::move(cells));
    }
    view.screen.emplace_back(std::move(table));
  }
  view.screen.emplace_back(std::move(many));
}

std::string steps_list(const Json& steps) {
  const auto n = static_cast<std::int64_t>(steps.size());
  return counted(n, "step") + " (" + listed(steps, kStepsListed) + ")";
}

Facts window_facts(const Runs& runs) {
  Facts facts;
  for (const Json* run : runs) {
    const std::string title = run_title(*run, runs);
    facts.push_back({title, report_window_text(*run)});
    const Json& disagree = at(*run, "settings_disagree");
    if (disagree.is_object()) {
      for (const auto& [key, ranks] : disagree.items()) {
        facts.push_back({"", "setting " + key + " differs on " + ranks_text(ranks), Tone::warn});
      }
    }
    if (const auto n = integer(at(*run, "invalid_values")); n && *n > 0) {
      facts.push_back(
          {"", counted(*n, "value") + " could not be used (negative, not finite or text)", Tone::warn});
    }
    const Json& warnings = at(*run, "warnings");
    if (!warnings.is_array()) continue;
    for (const Json& warning : warnings) facts.push_back({"", text(warning), Tone::warn});
  }
  return facts;
}

Notes notes_of(const Json& report) {
  Notes notes{
      {"A stage row is the mean over the steps of that stage on each step's slowest rank, where an absent "
       "stage counts as 0; (k of n) says in how many steps it was there."}};
  const Json& given = at(report, "notes");
  if (given.is_array()) {
    for (const Json& note : given) notes.lines.push_back(text(note));
  }
  return notes;
}

}  // namespace

std::string report_window_text(const Json& run) {
  const Json& window = at(run, "window");
  const auto counting = integer(at(run, "steps")).value_or(0);
  std::string out = counted(counting, "step");
  // What was not asked for is filled in from the steps there are.
  if (counting > 0 && !at(window, "from").is_null()) {
    out += ", " + text(at(window, "from")) + " to " + text(at(window, "to")) +
           " (window: " + text(at(window, "chosen")) + ")";
  }
  const Json& left_out = at(run, "left_out");
  const auto add = [&](const char* key, const char* why) {
    const Json& steps = at(left_out, key);
    if (steps.is_array() && !steps.empty()) out += "; left out: " + steps_list(steps) + " " + why;
  };
  add("aside", "with a checkpoint, an evaluation, logging or an exception");
  add("incomplete", "in which a reporting rank is missing");
  add("no_wall", "without a usable wall time");
  for (const char* side : {"before", "after"}) {
    const auto n = integer(at(left_out, side));
    if (n && *n > 0) out += "; " + counted(*n, "step") + " " + side + " the window";
  }
  return out;
}

View report_view(const Json& report, const std::vector<std::string>& stage_order) {
  Runs runs;
  const Json& list = at(report, "runs");
  if (list.is_array()) {
    for (const Json& run : list) runs.push_back(&run);
  }
  View view{{match_line(at(report, "match")), mismatch_facts(at(report, "match")), absent_ranks(runs),
             figures_table(runs)},
            report_rows(report),
            report};
  view.screen.emplace_back(verdict_facts(runs));
  add_stage_tables(view, runs, stage_order);
  view.screen.emplace_back(rank_walls_table(runs));
  view.screen.emplace_back(walls_table(runs));
  add_histograms(view, runs);
  view.screen.emplace_back(window_facts(runs));
  view.screen.emplace_back(notes_of(report));
  return view;
}

}  // namespace laggard::client
