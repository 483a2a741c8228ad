#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/render/text.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string profile;
  StepRange range;
};

Json json_of(const Profile& profile) {
  Json ratios = Json::array();
  for (const Ratio& ratio : profile.ratios) {
    ratios.push_back({{"name", ratio.name},
                      {"numerator", ratio.numerator},
                      {"denominator", ratio.denominator},
                      {"complement", ratio.complement}});
  }
  return {{"parents", profile.parents},
          {"kinds", profile.kinds},
          {"exclusive_names", profile.exclusive_names},
          {"stage_order", profile.stage_order},
          {"ratios", ratios},
          {"may_differ", profile.may_differ},
          {"match_counts", profile.match_counts}};
}

// For each run without a step that counts, a sentence that says so.
std::vector<std::string> empty_runs(const Collector& collector, const Json& report) {
  std::vector<std::string> sentences;
  const Json& runs = at(report, "runs");
  if (!runs.is_array()) return sentences;
  for (const Json& run : runs) {
    if (integer(at(run, "steps")) != 0) continue;
    sentences.push_back(nothing_to_show(collector, run));
  }
  return sentences;
}

void show_report(Context& context, const ReportOptions& options) {
  options.range.check();
  Profile profile;
  Json body = {{"runs", options.runs}, {"from", nullptr}, {"to", nullptr}, {"profile", nullptr}};
  if (options.range.from) body["from"] = *options.range.from;
  if (options.range.to) body["to"] = *options.range.to;
  if (!options.profile.empty()) {
    profile = read_profile(options.profile);
    body["profile"] = json_of(profile);
  }
  const Collector collector = context.collector();
  const Json report = collector.post("/api/v1/report", body);
  const auto empty = empty_runs(collector, report);
  const Json& match = at(report, "match");
  if (truth(at(match, "checked")) && !truth(at(match, "pass"))) context.exit_code = ExitCode::condition;
  if (!empty.empty()) context.exit_code = ExitCode::no_such_data;
  if (empty.empty() || empty.size() < at(report, "runs").size())
    context.show(report_view(report, profile.stage_order));
  for (const std::string& sentence : empty) context.console.err("laggard: " + printable(sentence) + '\n');
}

}  // namespace

void add_report(CLI::App& app, Context& context) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = add_command(
      app, "report", "The summary of one run, or of several side by side", "After a job",
      "laggard report before after --profile job.toml -o markdown",
      "Exit codes: 1 the runs do not match; 4 a run has no step in the window, also when the others\n"
      "have some and are shown.");
  command->add_option("runs", options->runs, "The runs, NAME or NAME@ATTEMPT")->required();
  command
      ->add_option("--profile", options->profile, "TOML file that says how stages nest and what must match")
      ->check(CLI::ExistingFile);
  options->range.add_to(*command);
  command->callback([&context, options] { show_report(context, *options); });
}

}  // namespace laggard::client
