#include <set>

#include "client/render/number.h"
#include "client/views/stage_tree.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

// A measured time, or in words why there is none.
Cell value_cell(const Json& value, const std::string& state) {
  if (const auto real = number(value)) return Cell(*real, 3);
  if (state.empty() || state == "absent" || state == "valid") return {};
  return Cell(state, Tone::warn);
}

std::string invalid_text(const Json& rank) {
  std::string out;
  const Json& invalid = at(rank, "invalid");
  if (!invalid.is_array()) return out;
  for (const Json& one : invalid) {
    out += (out.empty() ? "" : ", ") + text(at(one, "field")) + " " + text(at(one, "state"));
  }
  return out;
}

std::vector<std::string> names_in(const Json& ranks, const char* group) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Json& rank : ranks) {
    const Json& members = at(rank, group);
    if (!members.is_object()) continue;
    for (const auto& [name, value] : members.items()) {
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

// One row a rank. People see wall and own time; programs also see every number of the record.
Table rank_table(const Json& ranks) {
  Table table{"",
              {{"rank", "rank"},
               {"wall_ms", "wall ms"},
               {"wall_state", "wall state", Align::left, Show::programs},
               {"own_ms", "own time ms"},
               {"invalid", "cannot be used", Align::left}},
              {}};
  struct Group {
    const char* name;
    const char* suffix;
    std::vector<std::string> names;
  };
  std::vector<Group> groups = {
      {"stream", "_ms", {}}, {"host", "_ms", {}}, {"calls", "", {}}, {"counts", "", {}}};
  for (Group& group : groups) {
    group.names = names_in(ranks, group.name);
    for (const std::string& name : group.names) {
      table.columns.push_back(
          {std::string(group.name) + ":" + name + group.suffix, name, Align::right, Show::programs});
    }
  }
  for (const Json& rank : ranks) {
    std::vector<Cell> row = {
        integer_cell(at(rank, "rank")), value_cell(at(rank, "wall_ms"), text(at(rank, "wall_state"))),
        text_cell(at(rank, "wall_state")), real_cell(at(rank, "own_ms"), 3), invalid_text(rank)};
    for (const Group& group : groups) {
      for (const std::string& name : group.names) {
        const Json& value = at(at(rank, group.name), name);
        row.push_back(integer(value) ? integer_cell(value) : real_cell(value, kShortest));
      }
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The summary may know more ranks than are listed.
Notes not_stored(const Json& step, std::size_t listed) {
  const auto present = integer(at(step, "present"));
  const auto rows = static_cast<std::int64_t>(listed);
  if (!present || *present <= rows || truth(at(step, "more"))) return {};
  return {{"the records of " + counted(*present - rows, "rank") + " are not stored at this moment"}};
}

}  // namespace

View step_view(const Json& step) {
  Facts facts = {{"run", text(at(step, "run")) + " | attempt " + text(at(step, "attempt"))},
                 {"step", text(at(step, "step")) + " " + step_state_text(step), step_tone(at(step, "state"))},
                 {"slowest", slowest_text(step)},
                 {"culprit", culprit_text(step), at(step, "culprit").is_null() ? Tone::plain : Tone::strong}};
  if (const std::string hint = culprit_hint(step); !hint.empty()) facts.push_back({"", hint, Tone::warn});
  const Json& own = at(step, "own");
  if (const auto max = number(at(own, "max_ms")), median = number(at(own, "median_ms")); max && median) {
    facts.push_back({"own time", "rank " + text(at(own, "max_rank")) + " " + fixed(*max, 3) + " ms, median " +
                                     fixed(*median, 3) + " ms (" + text(at(step, "clock")) + " clock)"});
  }
  const Json& list = at(step, "ranks");
  const Table ranks = rank_table(list.is_array() ? list : Json::array());
  View view{{facts}, ranks, step};
  for (const char* clock : {"stream", "host"}) {
    const Table tree = stage_tree(step, clock);
    if (!tree.rows.empty()) view.screen.emplace_back(tree);
  }
  view.screen.emplace_back(ranks);
  view.screen.emplace_back(not_stored(step, ranks.rows.size()));
  return view;
}

}  // namespace laggard::client
