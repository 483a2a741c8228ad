// A comparison as docs/api.md describes it.
#include "daemon/base/settings.h"
#include "daemon/core/compare.h"
#include "daemon/serve/json.h"

namespace laggard::serve {
namespace {

/// Times in seconds; the core has them in milliseconds.
double divisor_of(core::Figure figure) {
  const bool is_time = figure != core::Figure::throughput && figure != core::Figure::slowdown;
  return is_time ? 1000 : 1;
}

Json unit_of(core::Figure figure) {
  if (figure == core::Figure::slowdown) return nullptr;
  return figure == core::Figure::throughput ? "samples/s" : "s";
}

Json scaled_list(const std::vector<double>& values, double divisor) {
  Json list = Json::array();
  for (const double value : values) list.push_back(figure(value / divisor));
  return list;
}

Json row_json(const core::ComparedRow& row, bool comparable) {
  const bool is_stage = row.figure == core::Figure::stage;
  const double divisor = divisor_of(row.figure);
  const auto scaled = [divisor](double value) { return figure(value / divisor); };
  const double percent = row.base != 0 ? 100 * row.difference / row.base : kAbsent;
  return {{"figure", core::name_of(row.figure)},
          {"stage", is_stage ? Json(row.name) : Json(nullptr)},
          {"parent", text_or_null(row.parent)},
          {"depth", row.depth},
          {"exclusive", row.exclusive},
          {"kind", is_stage ? Json(core::name_of(row.kind)) : Json(nullptr)},
          {"clock", is_stage ? Json(core::name_of(row.clock)) : Json(nullptr)},
          {"unit", unit_of(row.figure)},
          {"comparable", comparable},
          {"base", scaled(row.base)},
          {"new", scaled(row.newer)},
          {"difference", scaled(row.difference)},
          {"difference_percent", figure(percent)},
          {"low", scaled(row.interval.low)},
          {"high", scaled(row.interval.high)},
          {"estimate", core::name_of(row.estimate)},
          {"spread", scaled(row.spread)},
          {"hodges_lehmann", scaled(row.hodges_lehmann)},
          {"rank_p", figure(row.rank_p)},
          {"finding", core::name_of(row.finding)},
          {"cause", row.cause},
          {"present", is_stage ? Json(row.present) : Json(nullptr)},
          {"of", is_stage ? Json(row.of) : Json(nullptr)},
          {"base_runs", scaled_list(row.base_runs, divisor)},
          {"new_runs", scaled_list(row.new_runs, divisor)}};
}

/// What identifies a run of the comparison and its window; its figures are in the rows.
Json side_run_json(const core::ComparedRun& run) {
  const core::RunReport& report = run.report;
  Json json = report_identity(report);
  json.update({{"settings", settings_json(report.settings)},
               {"started_unix_ms", optional_json(parse_settings(report.settings).started_unix_ms)},
               {"first_received_unix_ms", time_point(run.first_received)},
               {"invalid_values", report.invalid_values},
               {"warnings", report.warnings}});
  return json;
}

Json side_json(const std::vector<core::ComparedRun>& runs) {
  Json list = Json::array();
  for (const core::ComparedRun& run : runs) list.push_back(side_run_json(run));
  return list;
}

Json method_json(const core::Comparison& comparison) {
  const bool blocks = comparison.blocks_base > 0 && comparison.blocks_new > 0;
  return {{"run_to_run_measured", comparison.is_run_to_run_measured()},
          {"blocks_base", blocks ? Json(comparison.blocks_base) : Json(nullptr)},
          {"blocks_new", blocks ? Json(comparison.blocks_new) : Json(nullptr)},
          {"paired_blocks", blocks ? Json(comparison.paired_blocks) : Json(nullptr)},
          {"confidence", core::kConfidence},
          {"smallest_rank_p", comparison.smallest_rank_p},
          {"runs_needed", core::runs_needed()}};
}

Json order_json(const core::Order& order) {
  return {{"known_from", core::name_of(order.known)},
          {"pattern", text_or_null(order.pattern)},
          {"drift", core::name_of(order.drift)}};
}

}  // namespace

Json to_json(const core::Comparison& comparison) {
  Json rows = Json::array(), counts = Json::array(), causes = Json::array();
  for (const core::ComparedRow& row : comparison.rows) rows.push_back(row_json(row, comparison.match.pass));
  for (const core::ComparedCount& count : comparison.counts)
    counts.push_back({{"name", count.name},
                      {"unit", count.percent ? "%" : "count"},
                      {"base", figure(count.base)},
                      {"new", figure(count.newer)}});
  for (const std::size_t i : comparison.causes)
    causes.push_back({{"stage", comparison.rows[i].name},
                      {"clock", core::name_of(comparison.rows[i].clock)},
                      {"difference_s", figure(comparison.rows[i].difference / 1000)}});
  return {{"match", to_json(comparison.match)},   {"conclusions", core::conclusions(comparison)},
          {"causes", std::move(causes)},          {"rows", std::move(rows)},
          {"counts", std::move(counts)},          {"clock", core::name_of(comparison.clock)},
          {"method", method_json(comparison)},    {"order", order_json(comparison.order)},
          {"caveats", core::caveats(comparison)}, {"base", side_json(comparison.base)},
          {"new", side_json(comparison.newer)},   {"notes", reading_notes()}};
}

}  // namespace laggard::serve
