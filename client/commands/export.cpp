#include <CLI/CLI.hpp>
#include <limits>
#include <memory>

#include "client/commands/commands.h"

namespace laggard::client {

void add_export(CLI::App& app, Context& context) {
  struct Options {
    std::string run;
    std::optional<std::uint32_t> attempt;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "export", "The records back as JSON lines, bit for bit in every number",
                  "Data in and out", "laggard export job --attempt 1 > job.jsonl");
  command->add_option("run", options->run, "The run")->required();
  command->add_option("--attempt", options->attempt, "An older attempt")
      ->check(CLI::Range(std::uint32_t{1}, std::numeric_limits<std::uint32_t>::max()));
  command->callback([&app, &context, options] {
    if (app.get_option("--output")->count() > 0 && context.format() != Format::jsonl)
      throw Failure(ExitCode::usage, "export writes JSON lines: leave -o out, or say -o jsonl");
    RunRef run = parse_run(options->run);
    if (options->attempt) run.attempt = options->attempt;
    context.collector().stream(run_target(run, "/export"), context.console.out);
  });
}

}  // namespace laggard::client
