#include <CLI/CLI.hpp>

#include "client/commands/commands.h"
#include "client/views/views.h"

namespace laggard::client {

void add_runs(CLI::App& app, Context& context) {
  CLI::App* command = add_command(app, "runs", "Every run, its state and its last step", "While a job runs",
                                  "laggard runs -o csv");
  command->callback([&context] {
    const Json runs = context.collector().get("/api/v1/runs");
    context.show(runs_view(runs));
    if (at(runs, "runs").empty())
      context.console.err("No run yet: laggard-agent --run NAME FILE... begins one.\n");
  });
}

}  // namespace laggard::client
