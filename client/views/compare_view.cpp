// A comparison for people: the answer in sentences, then the figures that it rests on.
#include <algorithm>
#include <cmath>

#include "client/render/number.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

constexpr int kSecondDigits = 4, kShortSecondDigits = 6, kOtherDigits = 3, kRatioDigits = 2;
// Steps below this many seconds get more digits.
constexpr double kShortWall = 0.1;

/// What all the tables of one comparison share.
struct Look {
  bool comparable = true;
  bool rank_tests = false;
  int second_digits = kSecondDigits;
};

const Json& array_in(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& list = at(object, key);
  return list.is_array() ? list : kEmpty;
}

Look look_of(const Json& comparison) {
  Look look{.comparable = truth(at(at(comparison, "match"), "pass"))};
  for (const Json& row : array_in(comparison, "rows")) {
    look.rank_tests = look.rank_tests || number(at(row, "rank_p")).has_value();
    const bool is_wall = text(at(row, "figure")) == "max_rank_wall";
    if (is_wall && number(at(row, "base")).value_or(1) < kShortWall) look.second_digits = kShortSecondDigits;
  }
  return look;
}

Facts sentence_facts(const Json& list) {
  Facts facts;
  for (const Json& sentence : list) facts.push_back({"", text(sentence)});
  return facts;
}

/// What to do about settings that differ: those that the change is about may.
Notes setting_hint(const Json& match) {
  for (const Json& mismatch : array_in(match, "mismatches")) {
    if (!text(at(mismatch, "what")).starts_with("setting ")) continue;
    return {{"A setting that the change is about belongs in may_differ of a profile (--profile FILE)."}};
  }
  return {};
}

std::string with_sign(double value, int digits) {
  std::string out = fixed(value, digits);
  // Rounding leaves no sign on what it made a zero.
  if (out.find_first_not_of("-0.") == std::string::npos) return fixed(0, digits);
  return out.front() == '-' ? out : "+" + out;
}

Cell signed_cell(const Json& value, int digits) {
  const auto real = number(value);
  return real ? Cell(with_sign(*real, digits)) : Cell();
}

Cell interval_cell(const Json& row, int digits) {
  const auto low = number(at(row, "low")), high = number(at(row, "high"));
  return low && high ? Cell(with_sign(*low, digits) + " to " + with_sign(*high, digits)) : Cell();
}

Cell finding_cell(const Json& row) {
  if (truth(at(row, "cause"))) return Cell("named", Tone::strong);
  const std::string finding = text(at(row, "finding"));
  if (finding == "beyond") return Cell("yes");
  return finding == "inside" ? Cell("no") : Cell();
}

std::string figure_title(const std::string& figure) {
  if (figure == "max_rank_wall") return "max-rank wall, s";
  if (figure == "throughput") return "throughput, samples/s";
  if (figure == "max_own") return "largest own time, s";
  if (figure == "mean_own") return "mean own time, s";
  return figure == "slowdown" ? "slowdown S" : figure;
}

Cell stage_cell(const Json& row) {
  Cell cell = text_cell(at(row, "stage"));
  cell.indent = static_cast<int>(std::clamp<std::int64_t>(integer(at(row, "depth")).value_or(0), 0, 64));
  const auto present = integer(at(row, "present")), of = integer(at(row, "of"));
  if (present && of && *present < *of)
    cell.note = "(in " + std::to_string(*present) + " of " + counted(*of, "step") + ")";
  return cell;
}

std::vector<Column> columns_of(const char* first, const Look& look) {
  std::vector<Column> columns = {{"name", first, Align::left}};
  if (!look.comparable) columns.push_back({"match", "match", Align::left});
  for (const char* title : {"base", "new", "difference", "%", "95 % interval", "spread"})
    columns.push_back({title, title});
  columns.push_back({"finding", "beyond spread", Align::left});
  if (look.rank_tests) {
    columns.push_back({"hodges_lehmann", "Hodges-Lehmann"});
    columns.push_back({"rank_p", "rank p"});
  }
  return columns;
}

std::vector<Cell> cells_of(Cell first, const Json& row, const Look& look) {
  const int digits = text(at(row, "unit")) == "s" ? look.second_digits : kOtherDigits;
  std::vector<Cell> cells = {std::move(first)};
  if (!look.comparable) cells.emplace_back("FAIL", Tone::bad);
  Cell difference = signed_cell(at(row, "difference"), digits);
  if (text(at(row, "estimate")) == "block means") difference.note = "(block means)";
  cells.insert(cells.end(),
               {real_cell(at(row, "base"), digits), real_cell(at(row, "new"), digits), difference,
                signed_cell(at(row, "difference_percent"), 1), interval_cell(row, digits),
                real_cell(at(row, "spread"), digits), finding_cell(row)});
  if (look.rank_tests) {
    cells.push_back(signed_cell(at(row, "hodges_lehmann"), digits));
    cells.push_back(real_cell(at(row, "rank_p"), kOtherDigits));
  }
  return cells;
}

Table compared_figures(const Json& comparison, const Look& look) {
  Table table{"", columns_of("figure", look), {}};
  for (const Json& row : array_in(comparison, "rows")) {
    const std::string figure = text(at(row, "figure"));
    if (figure != "stage") table.rows.push_back(cells_of(Cell(figure_title(figure)), row, look));
  }
  return table;
}

Table compared_stages(const Json& comparison, const Look& look) {
  const Json& rows = array_in(comparison, "rows");
  const std::string clock = text(at(comparison, "clock"));
  Table table{"Stages, s/update, " + clock + " clock", columns_of("stage", look), {}};
  for (const Json& row : rows)
    if (text(at(row, "clock")) == clock) table.rows.push_back(cells_of(stage_cell(row), row, look));
  return table;
}

/// Every ratio, and the counts that differ: equal ones are what the match check is for.
Table compared_counts(const Json& comparison) {
  Table table{"Counts beside, mean of a side's runs: no proof of a cause",
              {{"name", "count", Align::left}, {"base", "base"}, {"new", "new"}},
              {}};
  for (const Json& count : array_in(comparison, "counts")) {
    const Json &base = at(count, "base"), &newer = at(count, "new");
    const bool percent = text(at(count, "unit")) == "%";
    if (!percent && base == newer) continue;
    const auto cell = [&](const Json& value) {
      const auto real = number(value);
      return real_cell(value, percent ? kRatioDigits : real && *real == std::floor(*real) ? 0 : 1);
    };
    table.rows.push_back({text_cell(at(count, "name")), cell(base), cell(newer)});
  }
  return table;
}

Facts run_facts(const Json& comparison) {
  Facts facts;
  for (const char* side : {"base", "new"}) {
    for (const Json& run : array_in(comparison, side)) {
      const auto attempt = integer(at(run, "attempt"));
      const std::string name =
          text(at(run, "run")) + (attempt && *attempt > 1 ? "@" + std::to_string(*attempt) : "");
      facts.push_back({side, name + ": " + report_window_text(run)});
      const Json& never = array_in(run, "never_reported");
      if (!never.empty()) facts.push_back({"", "never reported: " + ranks_text(never), Tone::warn});
      if (const auto n = integer(at(run, "invalid_values")); n && *n > 0)
        facts.push_back(
            {"", counted(*n, "value") + " could not be used (negative, not finite or text)", Tone::warn});
      for (const Json& warning : array_in(run, "warnings")) facts.push_back({"", text(warning), Tone::warn});
    }
  }
  return facts;
}

Notes reading_notes(const Json& comparison) {
  Notes notes;
  for (const char* key : {"caveats", "notes"})
    for (const Json& sentence : array_in(comparison, key)) notes.lines.push_back(text(sentence));
  notes.lines.emplace_back(
      "spread: the standard deviation between runs of one side. Beyond it is a difference that has the same "
      "sign in every pairing of a base run with a new one and is larger than three spreads; with three runs "
      "a side and more, larger than one, with an interval that leaves out 0.");
  return notes;
}

}  // namespace

View compare_view(const Json& comparison, const std::string& fail_on) {
  const Look look = look_of(comparison);
  View view{{match_line(at(comparison, "match")), mismatch_facts(at(comparison, "match")),
             setting_hint(at(comparison, "match")), sentence_facts(array_in(comparison, "conclusions"))},
            compare_rows(comparison),
            comparison};
  if (!fail_on.empty()) view.screen.emplace_back(Facts{{"", fail_on}});
  view.screen.emplace_back(compared_figures(comparison, look));
  for (Table table : {compared_stages(comparison, look), compared_counts(comparison)})
    if (!table.rows.empty()) view.screen.emplace_back(std::move(table));
  view.screen.emplace_back(run_facts(comparison));
  view.screen.emplace_back(reading_notes(comparison));
  return view;
}

}  // namespace laggard::client
