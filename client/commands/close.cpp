#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"

namespace laggard::client {

void add_close(CLI::App& app, Context& context) {
  auto run = std::make_shared<std::string>();
  CLI::App* command =
      add_command(app, "close", "End a run by hand, when its job will not say so itself", "Data in and out",
                  "laggard close job --token-file data/admin.token", kNeedsToken);
  command->add_option("run", *run, "The run")->required();
  command->callback([&context, run] {
    const Json answer = context.collector().post(run_target({*run, std::nullopt}, "/close"), Json::object());
    const Table table{"",
                      {{"run", "run", Align::left}, {"state", "state", Align::left}},
                      {{text_cell(at(answer, "run")), text_cell(at(answer, "state"))}}};
    context.show({{table}, table, answer});
  });
}

}  // namespace laggard::client
