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

std::vector<std::string> stage_order_of(const Json& body) {
  const Json& order = at(at(body, "profile"), "stage_order");
  return order.is_array() ? order.get<std::vector<std::string>>() : std::vector<std::string>{};
}

void show_report(Context& context, const ReportOptions& options) {
  options.range.check();
  const Json body = report_request(options.runs, options.range, options.profile);
  const Collector collector = context.collector();
  const Json report = collector.post("/api/v1/report", body);
  const auto empty = empty_runs(collector, at(report, "runs"));
  const Json& match = at(report, "match");
  if (truth(at(match, "checked")) && !truth(at(match, "pass"))) context.exit_code = ExitCode::condition;
  if (!empty.empty()) context.exit_code = ExitCode::no_such_data;
  if (empty.empty() || empty.size() < at(report, "runs").size())
    context.show(report_view(report, stage_order_of(body)));
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
