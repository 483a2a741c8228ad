#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"

namespace laggard::client {

void add_stages(CLI::App& app, Context& context) {
  struct Options {
    std::string run;
    StepRange range;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, "stages", "The mean of every stage over a window of steps",
                                  "After a job", "laggard stages job --from 100 --to 200");
  command->add_option("run", options->run, "The run")->required();
  options->range.add_to(*command);
  command->callback([&context, options] {
    const std::string target = run_target(parse_run(options->run), "/stages", options->range.query());
    context.show(stages_view(context.collector().get(target)));
  });
}

}  // namespace laggard::client
