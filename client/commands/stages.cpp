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
    options->range.check();
    const Collector collector = context.collector();
    const RunRef run = parse_run(options->run);
    const Json stages = collector.get(run_target(run, "/stages", options->range.query()));
    if (integer(at(stages, "steps")) == 0)
      throw Failure(ExitCode::no_such_data, nothing_to_show(collector, stages));
    context.show(stages_view(stages));
  });
}

}  // namespace laggard::client
