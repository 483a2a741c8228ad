#include <algorithm>
#include <charconv>

#include "daemon/base/limits.h"
#include "daemon/serve/query_error.h"
#include "daemon/serve/query_service.h"

namespace laggard::serve {
namespace {

std::optional<std::uint32_t> attempt_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number == 0) return std::nullopt;
  return number;
}

core::ReportBuilder::RunFacts facts_of(const std::string& run, const core::AttemptRow& row,
                                       History& history) {
  core::ReportBuilder::RunFacts facts{.run = run, .attempt = row.attempt, .world_size = row.world_size};
  for (core::RankRow& rank : history.ranks(row.id)) {
    if (rank.records > 0) facts.known_ranks.push_back(rank.rank);
    if (!rank.host.empty()) facts.agent_hosts.emplace(rank.rank, rank.host);
    if (!rank.settings.empty()) facts.settings.emplace_back(rank.rank, std::move(rank.settings));
  }
  return facts;
}

// Takes away what cannot be known when only the steps of the window were read.
void forget_outside(Json& report, const core::Window& window) {
  for (const char* figure : {"all_steps_mean_s", "all_steps_median_s"}) report[figure] = nullptr;
  if (window.from.has_value()) report["left_out"]["before"] = nullptr;
  if (window.to.has_value()) report["left_out"]["after"] = nullptr;
}

}  // namespace

AttemptAsked QueryService::parse_run(const std::string& text) const {
  const auto seen = snapshot();
  // A name may contain an @ of its own: it wins.
  const bool whole = std::ranges::any_of(seen->runs, [&](const auto& run) { return run->name == text; });
  const std::size_t at = text.rfind('@');
  if (whole || at == std::string::npos) return {.run = text, .attempt = std::nullopt};
  const auto number = attempt_number(std::string_view(text).substr(at + 1));
  if (!number.has_value()) return {.run = text, .attempt = std::nullopt};
  return {.run = text.substr(0, at), .attempt = number};
}

core::UnixMs QueryService::report_deadline() const { return now() + limits::kReportMs; }

void QueryService::check_time(core::UnixMs until) const {
  check_cancelled();
  if (now() <= until) return;
  throw QueryTimeout("not done in " + std::to_string(limits::kReportMs / 1000) +
                     " s: ask for fewer runs at once, or for the stages of a few steps (from, to)");
}

core::RunReport QueryService::report_of(const AttemptAsked& asked, const ReportPart& part,
                                        const Profile& profile, History& history) const {
  check_time(part.until);
  const core::AttemptRow row = stored_attempt(asked, history);
  const core::StageTable stages = history.stages(row.id);
  const auto facts = facts_of(asked.run, row, history);
  core::ReportBuilder builder(facts, stages, history.layouts(), profile, part.window, part.judged);
  history.each_step(row.id, part.read, [&](const core::StepRecords& records, const LayoutTable&) {
    check_time(part.until);
    builder.add(records);
    return true;
  });
  core::RunReport report = builder.finish();
  // Once more: some may have gone while the steps were read.
  const std::optional<Step> kept_from = stored_attempt(asked, history).records_from;
  if (kept_from.has_value() && part.window.from.value_or(*kept_from - 1) < *kept_from)
    report.warnings.push_back("the records of steps before " + std::to_string(*kept_from) +
                              " are kept no longer: those steps are in no figure here");
  return report;
}

Json QueryService::stages(const AttemptAsked& asked, const core::Window& window, History& history,
                          core::UnixMs until) const {
  // Nothing here is of the steps outside the window, so they need not be read.
  const core::RunReport report =
      report_of(asked, {.read = window, .window = window, .until = until, .judged = core::Judged::no},
                Profile{}, history);
  Json left_out = to_json(report.left_out);
  if (window.from.has_value()) left_out["before"] = nullptr;
  if (window.to.has_value()) left_out["after"] = nullptr;
  Json rows = Json::array();
  for (const core::StageRow& row : report.stages) rows.push_back(to_json(row, report.steps));
  return {{"run", report.run},
          {"attempt", report.attempt},
          {"window",
           {{"from", optional_json(report.from)},
            {"to", optional_json(report.to)},
            {"chosen", report.window_from}}},
          {"steps", report.steps},
          {"left_out", std::move(left_out)},
          {"stages", std::move(rows)}};
}

Json QueryService::report(const ReportAsked& asked, History& history, core::UnixMs until) const {
  const bool whole = !asked.window_only || (!asked.window.from.has_value() && !asked.window.to.has_value());
  const ReportPart part{
      .read = whole ? core::Window{} : asked.window, .window = asked.window, .until = until};
  std::vector<core::RunReport> reports;
  for (const std::string& run : asked.runs)
    reports.push_back(report_of(parse_run(run), part, asked.profile, history));
  Json runs = Json::array();
  for (const core::RunReport& report : reports) {
    runs.push_back(to_json(report));
    if (!whole) forget_outside(runs.back(), asked.window);
  }
  return {{"match", to_json(core::match_runs(reports, asked.profile))},
          {"runs", std::move(runs)},
          {"notes", reading_notes()}};
}

}  // namespace laggard::serve
