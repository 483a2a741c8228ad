#include "daemon/serve/json.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "daemon/base/limits.h"
#include "daemon/base/value.h"
#include "daemon/serve/verdict_json.h"

namespace laggard::serve {
namespace {

/// The text with Python's bare NaN, Infinity and -Infinity put into quotes.
std::string quote_python_numbers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (!text.substr(i).starts_with(word)) continue;
      out.append("\"").append(word).append("\"");
      i += word.size() - 1;
      replaced = true;
      break;
    }
    if (replaced) continue;
    if (c == '"') in_string = true;
    out += c;
  }
  return out;
}

/// How deep the arrays and objects of a JSON text go.
int nesting_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::optional<std::string> stage_name(core::StageId id, const core::StageTable& stages) {
  if (id == core::kNoStage || id >= stages.size()) return std::nullopt;
  return stages[id].name;
}

Json culprit_json(const std::optional<core::Culprit>& culprit, const core::StageTable& stages) {
  if (!culprit.has_value()) return nullptr;
  const bool known = culprit->stage < stages.size();
  return {{"rank", culprit->rank},
          {"own_excess_ms", figure(culprit->own_excess_ms)},
          {"stage", optional_json(stage_name(culprit->stage, stages))},
          {"stage_exclusive", known && stages.has_children(culprit->stage)},
          {"stage_excess_ms", known ? figure(culprit->stage_excess_ms) : Json(nullptr)}};
}

Json stage_json(const core::StageBreakdown& row, const core::StepBreakdown& step,
                const core::StageTable& stages) {
  const core::Stage& stage = stages[row.stage];
  const bool parent = stages.has_children(row.stage);
  return {{"stage", stage.name},
          {"parent", optional_json(stage_name(stage.parent, stages))},
          {"depth", stages.depth(row.stage)},
          {"kind", core::name_of(stage.kind)},
          {"kind_from", core::name_of(stage.kind_from)},
          {"clock", core::name_of(row.clock)},
          {"spread", to_json(row.spread)},
          {"of", step.present},
          {"slowest_ms", measured(row.slowest_ms)},
          {"slowest_state", name_of(state_of(row.slowest_ms))},
          {"slowest_exclusive_ms", figure(row.slowest_exclusive_ms)},
          {"exclusive_name", parent ? Json(core::exclusive_name(stage.name)) : Json(nullptr)},
          {"overlap", row.slowest_exclusive_ms < 0},
          {"others_median_ms", figure(row.others_median_ms)},
          {"others_max_ms", figure(row.others_max_ms)},
          {"culprit_ms", measured(row.culprit_ms)},
          {"invalid", row.invalid},
          {"null", row.null}};
}

/// The rows of a step, stream before host, each parent before its children.
Json stages_json(const core::StepBreakdown& step, const core::StageTable& stages) {
  Json rows = Json::array();
  const std::vector<core::StageId> order = stages.tree_order();
  for (const core::Clock clock : {core::Clock::stream, core::Clock::host}) {
    std::vector<const core::StageBreakdown*> by_stage(stages.size(), nullptr);
    for (const core::StageBreakdown& row : step.stages)
      if (row.clock == clock && row.stage < stages.size()) by_stage[row.stage] = &row;
    for (const core::StageId id : order)
      if (by_stage[id] != nullptr) rows.push_back(stage_json(*by_stage[id], step, stages));
  }
  return rows;
}

/// Valid times by name; those that are not valid are null here and named in `invalid` when they cannot be
/// used. An absent one has no key.
Json times_json(const std::string& field, std::span<const std::string> names, std::span<const double> times,
                Json& invalid) {
  Json out = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ValueState state = state_of(times[i]);
    if (state == ValueState::absent) continue;
    out[names[i]] = measured(times[i]);
    if (is_invalid(times[i]))
      invalid.push_back({{"field", field + "." + names[i]}, {"state", name_of(state)}});
  }
  return out;
}

Json ints_json(std::span<const std::string> names, std::span<const std::int64_t> ints) {
  Json out = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) out[names[i]] = ints[i];
  return out;
}

/// A time in seconds that the core keeps in milliseconds.
Json figure_seconds(double ms) { return figure(ms / 1000); }

Json stage_rows_seconds(const core::RunReport& report) {
  Json rows = Json::array();
  for (const core::StageRow& row : report.stages) {
    Json json = to_json(row, report.steps);
    json["mean_s"] = figure_seconds(row.mean_ms);
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace

Json reading_notes() {
  return {
      "Nested rows overlap: a stage contains its children, so rows of different depth must not be added up.",
      "Stream time includes stalls of the stream and waiting for other ranks."};
}

Json measured(double value) { return is_valid(value) ? Json(value) : Json(nullptr); }

Json figure(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json time_point(core::UnixMs value) { return value != 0 ? Json(value) : Json(nullptr); }

bool is_too_deep(std::string_view text) { return nesting_of(text) > limits::kMaxJsonDepth; }

std::optional<Json> parse_json(std::string_view text) {
  if (is_too_deep(text)) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

Json settings_json(std::string_view text) {
  if (text.empty()) return nullptr;
  std::optional<Json> json = parse_json(text);
  if (!json.has_value()) json = parse_json(quote_python_numbers(text));
  return json.value_or(nullptr);
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const core::Spread& spread) {
  const bool any = spread.present > 0;
  return {{"present", spread.present},
          {"min_ms", figure(spread.min)},
          {"median_ms", figure(spread.median)},
          {"mean_ms", figure(spread.mean)},
          {"max_ms", figure(spread.max)},
          {"max_rank", any ? Json(spread.max_rank) : Json(nullptr)},
          {"min_rank", any ? Json(spread.min_rank) : Json(nullptr)}};
}

Json to_json(const core::LeftOut& left_out) {
  return {{"aside", left_out.aside},
          {"incomplete", left_out.incomplete},
          {"no_wall", left_out.no_wall},
          {"before", left_out.before},
          {"after", left_out.after}};
}

Json step_brief(const core::StepView& view, const core::StageTable& stages) {
  const core::StepBreakdown& step = view.breakdown;
  const bool whole = view.state == core::StepState::complete || view.state == core::StepState::late_completed;
  return {{"step", step.step},
          {"state", core::name_of(view.state)},
          {"present", step.present},
          {"expected", view.expected},
          {"missing", view.missing},
          {"missing_count", view.missing_count},
          {"wall", to_json(step.wall)},
          {"slowest_rank", optional_json(step.slowest)},
          {"near_tie", step.near_tie},
          {"slowest_of_partial", !whole},
          {"culprit", culprit_json(step.culprit, stages)},
          {"aside", step.aside},
          {"tags", step.tags}};
}

Json step_detail(const core::StepView& view, const core::StageTable& stages) {
  Json json = step_brief(view, stages);
  json["clock"] = core::name_of(view.breakdown.clock);
  json["own"] = to_json(view.breakdown.own);
  json["invalid_values"] = view.breakdown.invalid_values;
  json["stages"] = stages_json(view.breakdown, stages);
  return json;
}

Json rank_detail(const RecordView& record, double own_ms) {
  Json invalid = Json::array();
  if (is_invalid(record.wall_ms()))
    invalid.push_back({{"field", "wall_ms"}, {"state", name_of(state_of(record.wall_ms()))}});
  Json stream = times_json("cuda_stream_ms", record.layout->stream, record.stream_ms(), invalid);
  Json host = times_json("cpu_call_ms", record.layout->host, record.host_ms(), invalid);
  return {{"rank", record.rank},
          {"wall_ms", measured(record.wall_ms())},
          {"wall_state", name_of(state_of(record.wall_ms()))},
          {"own_ms", measured(own_ms)},
          {"stream", std::move(stream)},
          {"host", std::move(host)},
          {"calls", ints_json(record.layout->calls, record.calls())},
          {"counts", ints_json(record.layout->counts, record.counts())},
          {"invalid", std::move(invalid)}};
}

Json to_json(const core::StageRow& row, std::uint64_t of) {
  return {{"stage", row.name},
          {"parent", row.parent.empty() ? Json(nullptr) : Json(row.parent)},
          {"depth", row.depth},
          {"kind", core::name_of(row.kind)},
          {"exclusive", row.exclusive},
          {"clock", core::name_of(row.clock)},
          {"mean_ms", figure(row.mean_ms)},
          {"present", row.present},
          {"of", of},
          {"overlaps", row.overlaps}};
}

Json to_json(const core::Match& match) {
  Json mismatches = Json::array();
  for (const core::Mismatch& mismatch : match.mismatches)
    mismatches.push_back({{"what", mismatch.what}, {"where", mismatch.where}});
  return {{"checked", match.checked},
          {"pass", match.pass},
          {"compared", match.compared},
          {"mismatches", std::move(mismatches)}};
}

Json report_identity(const core::RunReport& report) {
  return {{"run", report.run},
          {"attempt", report.attempt},
          {"world_size", report.world_size != 0 ? Json(report.world_size) : Json(nullptr)},
          {"ranks", report.ranks},
          {"never_reported", report.never_reported},
          {"window",
           {{"from", optional_json(report.from)},
            {"to", optional_json(report.to)},
            {"chosen", report.window_from}}},
          {"steps", report.steps},
          {"left_out", to_json(report.left_out)}};
}

Json to_json(const core::RunReport& report) {
  Json rank_walls = Json::array();
  for (const core::RankWall& wall : report.rank_walls)
    rank_walls.push_back(
        {{"rank", wall.rank}, {"mean_s", figure_seconds(wall.mean_ms)}, {"steps", wall.steps}});
  Json ratios = Json::array();
  for (const core::RatioRow& ratio : report.ratios)
    ratios.push_back({{"name", ratio.name}, {"percent", figure(ratio.percent)}});
  Json disagree = Json::object();
  for (const auto& [key, ranks] : report.settings_disagree) disagree[key] = ranks;
  Json json = report_identity(report);
  json.update(
      {{"max_rank_wall_s", figure_seconds(report.max_rank_wall_ms)},
       {"largest_rank_mean_s", figure_seconds(report.largest_rank_mean_ms)},
       {"median_wall_s", figure_seconds(report.median_wall_ms)},
       {"all_steps_mean_s", figure_seconds(report.all_steps_mean_ms)},
       {"all_steps_median_s", figure_seconds(report.all_steps_median_ms)},
       {"global_batch", report.global_batch.has_value() ? figure(*report.global_batch) : Json(nullptr)},
       {"samples_per_s", figure(report.samples_per_s)},
       {"max_own_s", figure_seconds(report.max_own_ms)},
       {"mean_own_s", figure_seconds(report.mean_own_ms)},
       {"slowdown", figure(report.slowdown)},
       {"verdict", to_json(report.verdict, report.stage_table)},
       {"stage_kinds", stage_kinds_json(report.stage_table)},
       {"rank_walls", std::move(rank_walls)},
       {"stages", stage_rows_seconds(report)},
       {"ratios", std::move(ratios)},
       {"count_sums", report.count_sums},
       {"histograms", report.histograms},
       {"settings", settings_json(report.settings)},
       {"settings_disagree", std::move(disagree)},
       {"invalid_values", report.invalid_values},
       {"warnings", report.warnings}});
  return json;
}

}  // namespace laggard::serve
