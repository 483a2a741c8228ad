#include "client/views/stage_tree.h"

#include <map>
#include <set>
#include <string>

#include "client/render/number.h"

namespace laggard::client {
namespace {

constexpr int kMsDigits = 3;

// "?" when the answer lacks it.
std::string ms_text(const Json& value, int digits = kMsDigits) {
  const auto real = number(value);
  return real ? fixed(*real, digits) + " ms" : "?";
}

using Children = std::map<std::string, std::vector<const Json*>>;

void add_below(const std::string& parent, const Children& children, std::set<std::string>& seen,
               std::vector<const Json*>& out) {
  const auto found = children.find(parent);
  if (found == children.end()) return;
  for (const Json* stage : found->second) {
    if (!seen.insert(text(at(*stage, "stage"))).second) continue;
    out.push_back(stage);
    add_below(text(at(*stage, "stage")), children, seen, out);
  }
}

// What the slowest rank has: a time, or why it has none.
Cell slowest_cell(const Json& stage) {
  const auto ms = number(at(stage, "slowest_ms"));
  if (ms) return Cell(*ms, kMsDigits);
  const std::string state = text(at(stage, "slowest_state"));
  if (state.empty() || state == "absent" || state == "valid") return {};
  return Cell(state, Tone::warn);
}

std::string remarks(const Json& stage) {
  std::string out;
  const auto add = [&](const std::string& remark) { out += (out.empty() ? "" : ", ") + remark; };
  const std::string kind = text(at(stage, "kind"));
  if (!kind.empty() && kind != "work") add(kind);
  if (const auto n = integer(at(stage, "invalid")); n && *n > 0) add(std::to_string(*n) + " invalid");
  if (const auto n = integer(at(stage, "null")); n && *n > 0) add(std::to_string(*n) + " null");
  return out;
}

// Whose column stands beside the slowest rank's; nothing when it is the same rank.
std::string culprit_column(const Json& step) {
  const Json& rank = at(at(step, "culprit"), "rank");
  return rank.is_null() || rank == at(step, "slowest_rank") ? "" : "culprit " + text(rank);
}

std::vector<Cell> stage_row(const Json& stage, int depth) {
  Cell name = text_cell(at(stage, "stage"));
  name.indent = depth;
  const Json& spread = at(stage, "spread");
  const std::string present = text(at(spread, "present")) + " of " + text(at(stage, "of"));
  return {name,
          slowest_cell(stage),
          real_cell(at(stage, "culprit_ms"), kMsDigits),
          real_cell(at(stage, "others_median_ms"), kMsDigits),
          real_cell(at(stage, "others_max_ms"), kMsDigits),
          real_cell(at(spread, "min_ms"), kMsDigits),
          real_cell(at(spread, "max_ms"), kMsDigits),
          integer_cell(at(spread, "max_rank")),
          present,
          remarks(stage)};
}

std::vector<Cell> exclusive_row(const Json& stage, int depth) {
  Cell name = text_cell(at(stage, "exclusive_name"));
  name.indent = depth + 1;
  Cell value = real_cell(at(stage, "slowest_exclusive_ms"), kMsDigits);
  const bool overlap = truth(at(stage, "overlap"));
  if (overlap) value.tone = Tone::warn;
  return {name, value, {}, {}, {}, {}, {}, {}, "", Cell(overlap ? "rest, overlap" : "rest")};
}

// Why nobody could be named whatever the ranks did; "" when somebody could.
std::string unknown_text(const Json& step) {
  const Json& ranks = at(step, "expected");
  const std::int64_t known = integer(at(at(step, "own"), "present")).value_or(0);
  if (integer(ranks) == 1) return "nobody: there is no other rank";
  if (known < 2)
    return "unknown: own time is known of " + std::to_string(known) + " of " + text(ranks) + " ranks";
  if (at(at(step, "wall"), "max_ms").is_null()) return "unknown: no rank has a usable wall time";
  return "";
}

// False when the culprit is the only rank that has the stage: there is nothing to compare it with.
bool others_have(const Json& step, const std::string& stage) {
  const Json& stages = at(step, "stages");
  if (!stages.is_array()) return false;
  const std::string clock = text(at(step, "clock"));
  for (const Json& row : stages) {
    if (text(at(row, "stage")) == stage && text(at(row, "clock")) == clock)
      return integer(at(at(row, "spread"), "present")).value_or(0) > 1;
  }
  return false;
}

std::string guilty_text(const Json& step, const Json& culprit) {
  std::string out = "rank " + text(at(culprit, "rank")) +
                    " makes the others wait: " + ms_text(at(culprit, "own_excess_ms"), 1) +
                    " more time of its own than the median rank";
  const std::string stage = text(at(culprit, "stage"));
  if (stage.empty()) return out;
  const std::string where =
      truth(at(culprit, "stage_exclusive")) ? stage + " outside its inner stages" : stage;
  const Json& excess = at(culprit, "stage_excess_ms");
  // A rank that does several things the others do not can have most of its time in none of them.
  if (number(excess).value_or(0) < number(at(culprit, "own_excess_ms")).value_or(0) / 2)
    return out + "; no one stage explains it (" + where + " is furthest above the others, by " +
           ms_text(excess, 1) + ")";
  // Never as a part of the own excess: a stage is compared with the others' median, own time with
  // everybody's.
  out += "; above all in " + where;
  // A stage that the others have another one for says nothing of how much.
  const bool is_more = number(excess).value_or(0) > number(at(culprit, "own_excess_ms")).value_or(0);
  if (is_more || !others_have(step, stage)) return out;
  return out + ", " + ms_text(excess, 1) + " more there than the others' median";
}

// A parent whose rest is still to come: it stands below all that is inside the parent.
struct Open {
  const Json* stage;
  int depth;
};

}  // namespace

std::vector<const Json*> in_tree_order(const Json& stages, std::string_view clock) {
  std::vector<const Json*> of_clock, out;
  std::set<std::string> names, seen;
  if (!stages.is_array()) return out;
  for (const Json& stage : stages) {
    if (text(at(stage, "clock")) != clock) continue;
    of_clock.push_back(&stage);
    names.insert(text(at(stage, "stage")));
  }
  Children children;
  for (const Json* stage : of_clock) {
    // A parent that was not measured on this clock leaves its children on the top level.
    const std::string parent = text(at(*stage, "parent"));
    children[names.contains(parent) ? parent : ""].push_back(stage);
  }
  add_below("", children, seen, out);
  return out;
}

Table stage_tree(const Json& step, std::string_view clock) {
  const std::string slowest = text(at(step, "slowest_rank")), culprit = culprit_column(step);
  Table table{"Stages, ms, " + std::string(clock) + " clock; median and max are those of the other ranks",
              {{"stage", "stage", Align::left},
               {"slowest_ms", slowest.empty() ? "slowest" : "rank " + slowest},
               {"culprit_ms", culprit, Align::right, culprit.empty() ? Show::programs : Show::always},
               {"others_median_ms", "median"},
               {"others_max_ms", "max"},
               {"min_ms", "min of all", Align::right, Show::wide},
               {"max_ms", "max of all", Align::right, Show::wide},
               {"max_rank", "of rank", Align::right, Show::wide},
               {"present", "ranks"},
               {"remarks", "", Align::left}},
              {}};
  std::vector<Open> open;
  std::map<std::string, int> depths;
  const auto close_to = [&](int depth) {
    for (; !open.empty() && open.back().depth >= depth; open.pop_back()) {
      table.rows.push_back(exclusive_row(*open.back().stage, open.back().depth));
    }
  };
  for (const Json* stage : in_tree_order(at(step, "stages"), clock)) {
    const auto parent = depths.find(text(at(*stage, "parent")));
    const int depth = parent == depths.end() ? 0 : parent->second + 1;
    depths[text(at(*stage, "stage"))] = depth;
    close_to(depth);
    table.rows.push_back(stage_row(*stage, depth));
    if (!at(*stage, "slowest_exclusive_ms").is_null()) open.push_back({stage, depth});
  }
  close_to(0);
  return table;
}

Table stage_rows(const Json& step) {
  const Align left = Align::left, right = Align::right;
  Table table{"", {{"run", "run", left}, {"attempt", "attempt"}, {"step", "step"}}, {}};
  constexpr const char* kTexts[] = {"stage", "parent", "kind", "clock", "slowest_state", "exclusive_name"};
  constexpr const char* kSpread[] = {"min_ms", "median_ms", "mean_ms", "max_ms"};
  constexpr const char* kSpreadInts[] = {"present", "min_rank", "max_rank"};
  constexpr const char* kReals[] = {"slowest_ms", "slowest_exclusive_ms", "others_median_ms", "others_max_ms",
                                    "culprit_ms"};
  constexpr const char* kInts[] = {"of", "depth", "invalid", "null"};
  for (const char* key : kTexts) table.columns.push_back({key, key, left});
  for (const char* key : kInts) table.columns.push_back({key, key, right});
  for (const char* key : kSpreadInts) table.columns.push_back({key, key, right});
  for (const char* key : kSpread) table.columns.push_back({key, key, right});
  for (const char* key : kReals) table.columns.push_back({key, key, right});
  const Json& stages = at(step, "stages");
  if (!stages.is_array()) return table;
  for (const Json& stage : stages) {
    std::vector<Cell> row = {text_cell(at(step, "run")), integer_cell(at(step, "attempt")),
                             integer_cell(at(step, "step"))};
    const Json& spread = at(stage, "spread");
    for (const char* key : kTexts) row.push_back(text_cell(at(stage, key)));
    for (const char* key : kInts) row.push_back(integer_cell(at(stage, key)));
    for (const char* key : kSpreadInts) row.push_back(integer_cell(at(spread, key)));
    for (const char* key : kSpread) row.push_back(real_cell(at(spread, key), kShortest));
    for (const char* key : kReals) row.push_back(real_cell(at(stage, key), kShortest));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string slowest_text(const Json& step) {
  const Json& wall = at(step, "wall");
  const Json& rank = at(step, "slowest_rank");
  if (rank.is_null()) return "unknown: no rank has a usable wall time";
  std::string out;
  if (truth(at(step, "near_tie"))) {
    out = "near tie: wall time names nobody (max and min within 0.1 %)";
  } else {
    out = "rank " + text(rank) + ": max " + ms_text(at(wall, "max_ms")) + ", median " +
          ms_text(at(wall, "median_ms")) + ", min " + ms_text(at(wall, "min_ms"));
  }
  if (truth(at(step, "slowest_of_partial"))) out += " (of the ranks present: a missing one may be slower)";
  return out;
}

std::string slowest_name(const Json& step) {
  const Json& rank = at(step, "slowest_rank");
  if (rank.is_null()) return "-";
  return truth(at(step, "near_tie")) ? "tie" : text(rank);
}

std::string culprit_text(const Json& step) {
  const Json& culprit = at(step, "culprit");
  if (culprit.is_null()) {
    if (std::string unknown = unknown_text(step); !unknown.empty()) return unknown;
  }
  std::string out = culprit.is_null() ? "nobody: no rank has clearly more time of its own than the others"
                                      : guilty_text(step, culprit);
  if (truth(at(step, "slowest_of_partial")))
    out += " (of the ranks present: a missing one may be the culprit)";
  return out;
}

std::string culprit_hint(const Json& step) {
  const auto ranks = integer(at(step, "expected"));
  const Json& stages = at(step, "stages");
  if (!ranks || *ranks < 2 || !stages.is_array() || stages.empty()) return "";
  return no_sync_hint(stages);
}

std::string no_sync_hint(const Json& stages) {
  for (const Json& stage : stages) {
    if (text(at(stage, "kind")) == "sync") return "";
  }
  return "no stage is known as sync, so a rank's own time contains its waiting: say kind=\"sync\" where a "
         "script "
         "measures it, stage_kinds in the config line, or give a job profile (laggard-agent --profile FILE)";
}

std::string step_state_text(const Json& step) {
  std::string out = text(at(step, "state")) + ", " + text(at(step, "present")) + " of " +
                    text(at(step, "expected")) + " ranks";
  const auto missing = integer(at(step, "missing_count"));
  if (const auto wall = number(at(at(step, "wall"), "max_ms")))
    out += ", wall " + fixed(*wall, kMsDigits) + " ms";
  if (missing && *missing > 0) out += ", without " + ranks_text(at(step, "missing"), missing);
  const Json& tags = at(step, "tags");
  if (tags.is_array() && !tags.empty()) out += ", tagged " + listed(tags, 8);
  if (truth(at(step, "aside")))
    out += ", not a normal step (a checkpoint, an evaluation, logging or an exception)";
  return out;
}

Tone step_tone(const Json& state) {
  const std::string name = text(state);
  if (name == "partial") return Tone::warn;
  return name == "open" ? Tone::plain : Tone::good;
}

}  // namespace laggard::client
