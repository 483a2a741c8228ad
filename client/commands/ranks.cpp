#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"

namespace laggard::client {

void add_ranks(CLI::App& app, Context& context) {
  auto run = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "ranks", "Every rank: when it was last heard of, and where it runs",
                                  "While a job runs", "laggard ranks job");
  command->add_option("run", *run, "The run")->required();
  command->callback([&context, run] {
    context.show(ranks_view(context.collector().get(run_target(parse_run(*run), "/ranks"))));
  });
}

}  // namespace laggard::client
