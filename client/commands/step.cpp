#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"

namespace laggard::client {

void add_step(CLI::App& app, Context& context) {
  struct Options {
    std::string run;
    std::int64_t step = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, "step", "One step: its stages and its ranks", "While a job runs",
                                  "laggard step job 1200");
  command->add_option("run", options->run, "The run")->required();
  command->add_option("step", options->step, "The step's number")->required();
  command->callback([&context, options] {
    const std::string below = "/steps/" + std::to_string(options->step);
    context.show(step_view(context.collector().get(run_target(parse_run(options->run), below))));
  });
}

}  // namespace laggard::client
