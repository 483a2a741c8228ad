#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

struct VerdictOptions {
  std::string run, profile;
  std::optional<double> fail_on;  // percent
  StepRange range;
};

void show_verdict(Context& context, const VerdictOptions& options) {
  options.range.check();
  const Collector collector = context.collector();
  Json request = report_request({options.run}, options.range, options.profile);
  request["window_only"] = true;
  const Json report = collector.post("/api/v1/report", request);
  const Json &run = at(report, "runs").at(0), &verdict = at(run, "verdict");
  if (integer(at(run, "steps")) == 0 && integer(at(verdict, "steps")).value_or(0) == 0)
    throw Failure(ExitCode::no_such_data, nothing_to_show(collector, run));
  context.show(verdict_view(run));
  const auto lost = number(at(verdict, "lost_ms")), wall = number(at(verdict, "wall_ms"));
  if (options.fail_on && (!lost || !wall))
    throw Failure(ExitCode::no_such_data, "without a verdict nothing can be said about --fail-on");
  if (options.fail_on && *lost > *options.fail_on / 100 * *wall) context.exit_code = ExitCode::condition;
}

}  // namespace

void add_verdict(CLI::App& app, Context& context) {
  auto options = std::make_shared<VerdictOptions>();
  CLI::App* command = add_command(
      app, "verdict", "Who holds a run back over a window of steps, in which stage, since when",
      "After a job", "laggard verdict job --from 8000 --fail-on 3%",
      "Without --from and --to it is over the configured window, else over all steps but the first 10.\n"
      "Exit codes: 1 uneven ranks cost more of the step than --fail-on allows; 4 no step in the window.");
  command->add_option("run", options->run, "The run, NAME or NAME@ATTEMPT")->required();
  command
      ->add_option("--profile", options->profile,
                   "TOML file that says how stages nest and of what kind they are")
      ->check(CLI::ExistingFile);
  add_fail_on(*command, options->fail_on, "Exit with 1 when uneven ranks cost more of the step");
  options->range.add_to(*command);
  command->callback([&context, options] { show_verdict(context, *options); });
}

}  // namespace laggard::client
