#include <algorithm>
#include <map>

#include "client/render/number.h"
#include "client/views/stage_tree.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

std::string milliseconds(const Json& value) {
  const auto ms = number(value);
  return ms ? fixed(*ms, 1) + " ms" : "-";
}

std::string percent_of(const Json& part, const Json& whole) {
  const auto a = number(part), b = number(whole);
  return a && b && *b > 0 ? fixed(100 * *a / *b, 1) + " %" : "-";
}

std::string group_text(const Json& group) { return text(at(group, "key")) + " " + text(at(group, "value")); }

Table culprits_table(const Json& verdict) {
  Table table{"steps whose culprit was",
              {{"rank", "rank"},
               {"steps", "steps"},
               {"share", "% of steps"},
               {"mean_excess_ms", "mean own excess ms"},
               {"stage", "above all in", Align::left}},
              {}};
  const Json& culprits = at(verdict, "culprits");
  if (!culprits.is_array()) return table;
  for (const Json& culprit : culprits) {
    const auto share = number(at(culprit, "share"));
    table.rows.push_back({integer_cell(at(culprit, "rank")), integer_cell(at(culprit, "steps")),
                          share ? Cell(100 * *share, 1) : Cell(), real_cell(at(culprit, "mean_excess_ms"), 1),
                          text_cell(at(culprit, "stage"))});
  }
  return table;
}

std::string partial_text(const Json& verdict) {
  const auto partial = integer(at(verdict, "partial_steps")).value_or(0);
  return partial == 0 ? "" : "; " + std::to_string(partial) + " of them without some rank";
}

Table what_if_table(const Json& verdict) {
  Table table{"what if, on every rank, it took as long as on the median one",
              {{"what", "what", Align::left},
               {"wall_ms", "step ms"},
               {"gain_ms", "gain ms"},
               {"gain_percent", "gain %"}},
              {}};
  const Json& list = at(verdict, "what_if");
  if (!list.is_array()) return table;
  for (const Json& what : list) {
    const std::string of = text(at(what, "of"));
    std::string name = of + " " + text(at(what, of));
    if (of == "group") name = group_text(at(what, "group"));
    const auto gain = number(at(what, "gain_ms")), wall = number(at(verdict, "wall_ms"));
    table.rows.push_back({name, real_cell(at(what, "wall_ms"), 1), real_cell(at(what, "gain_ms"), 1),
                          gain && wall && *wall > 0 ? Cell(100 * *gain / *wall, 1) : Cell()});
  }
  return table;
}

// "work (assumed): forward, optimizer": which kind each stage is taken for, and who says so.
std::vector<std::string> kind_lines(const Json& stage_kinds) {
  std::map<std::string, std::string> names;
  if (stage_kinds.is_array())
    for (const Json& stage : stage_kinds) {
      std::string& list = names[text(at(stage, "kind")) + " (" + text(at(stage, "kind_from")) + ")"];
      list += (list.empty() ? "" : ", ") + text(at(stage, "stage"));
    }
  std::vector<std::string> lines;
  lines.reserve(names.size());
  for (const auto& [kind, list] : names) lines.push_back(kind + ": " + list);
  return lines;
}

Table one_row(const Json& run) {
  const Json &verdict = at(run, "verdict"), &held = at(verdict, "held");
  const auto lost = number(at(verdict, "lost_ms")), wall = number(at(verdict, "wall_ms"));
  Table table{"", {}, {{}}};
  const auto add = [&](const char* key, Cell cell) {
    table.columns.push_back({key, key});
    table.rows.front().push_back(std::move(cell));
  };
  add("run", text_cell(at(run, "run")));
  add("attempt", integer_cell(at(run, "attempt")));
  for (const char* key : {"from", "to", "steps", "partial_steps"}) add(key, integer_cell(at(verdict, key)));
  add("kind", text_cell(at(verdict, "kind")));
  add("tentative", truth(at(verdict, "tentative")));
  add("ranks",
      held.is_null() ? Cell() : Cell(listed(at(held, "ranks"), 64, integer(at(held, "rank_count")))));
  const Json& group = at(held, "group");
  add("group", group.is_null() ? Cell() : Cell(group_text(group)));
  add("stage", text_cell(at(held, "stage")));
  add("since", integer_cell(at(held, "since")));
  add("until", integer_cell(at(held, "until")));
  add("share", real_cell(at(held, "share"), kShortest));
  add("stage_excess_ms", real_cell(at(held, "stage_excess_ms"), kShortest));
  add("excess_ms", real_cell(at(held, "excess_ms"), kShortest));
  add("wall_ms", real_cell(at(verdict, "wall_ms"), kShortest));
  add("lost_ms", real_cell(at(verdict, "lost_ms"), kShortest));
  add("lost_percent", lost && wall && *wall > 0 ? Cell(100 * *lost / *wall, kShortest) : Cell());
  add("slowdown", real_cell(at(verdict, "slowdown"), kShortest));
  add("sentence", text_cell(at(verdict, "sentence")));
  return table;
}

}  // namespace

Tone verdict_tone(const Json& verdict) {
  const std::string kind = text(at(verdict, "kind"));
  if (kind == "balanced") return Tone::good;
  return at(verdict, "held").is_null() ? Tone::plain : Tone::bad;
}

View verdict_view(const Json& run) {
  const Json& verdict = at(run, "verdict");
  Facts facts{{"verdict", text(at(verdict, "sentence")), verdict_tone(verdict)},
              {"window", report_window_text(run)}};
  // Others had fewer than two own times, or the window is longer than what a verdict keeps; and a step in
  // which a rank is missing is in no figure, but can be judged.
  if (const auto steps = integer(at(verdict, "steps"));
      steps && *steps > 0 && steps != integer(at(run, "steps")))
    facts.push_back({"judged", counted(*steps, "step") + ", " + text(at(verdict, "from")) + " to " +
                                   text(at(verdict, "to")) + partial_text(verdict)});
  if (const auto slowdown = number(at(verdict, "slowdown")))
    facts.push_back({"cost", "uneven ranks cost " + milliseconds(at(verdict, "lost_ms")) + " of " +
                                 milliseconds(at(verdict, "wall_ms")) + " a step (" +
                                 percent_of(at(verdict, "lost_ms"), at(verdict, "wall_ms")) + "): S " +
                                 fixed(*slowdown, 3)});
  const Json& never = at(run, "never_reported");
  if (never.is_array() && !never.empty())
    facts.push_back({"missing", ranks_text(never) + " never reported", Tone::warn});
  const Json &kinds_known = at(run, "stage_kinds"), &ranks = at(run, "ranks");
  if (at(verdict, "held").is_null() && kinds_known.is_array() && !kinds_known.empty() && ranks.size() > 1)
    if (std::string hint = no_sync_hint(kinds_known); !hint.empty())
      facts.push_back({"hint", std::move(hint), Tone::warn});
  View view{{facts}, one_row(run), run};
  for (Table table : {culprits_table(verdict), what_if_table(verdict)})
    if (!table.rows.empty()) view.screen.emplace_back(std::move(table));
  Facts kinds;
  for (const std::string& line : kind_lines(at(run, "stage_kinds")))
    kinds.push_back({kinds.empty() ? "kinds" : "", line});
  view.screen.emplace_back(kinds);
  return view;
}

}  // namespace laggard::client
