#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/failure.h"
#include "client/views/views.h"

namespace laggard::client {

void add_delete(CLI::App& app, Context& context) {
  struct Asked {
    std::string run;
    bool yes = false;
  };
  auto asked = std::make_shared<Asked>();
  CLI::App* command =
      add_command(app, "delete", "Delete a run with all its attempts and everything stored of them",
                  "Data in and out", "laggard delete old-job --yes --token-file data/admin.token",
                  std::string(kNeedsToken) +
                      "\nThere is no way back. A run that agents still deliver is refused: stop them first.");
  command->add_option("run", asked->run, "The run")->required();
  command->add_flag("--yes", asked->yes, "Do it; without this nothing is deleted");
  command->callback([&context, asked] {
    const Collector collector = context.collector();
    if (!asked->yes) {
      const Json run = collector.get(run_target({asked->run, std::nullopt}, ""));
      throw Failure(ExitCode::usage, "nothing is deleted without --yes: run \"" + asked->run + "\" has " +
                                         std::to_string(at(run, "attempts").size()) +
                                         " attempt(s), its last step is " + text(at(run, "last_step")));
    }
    const Json answer = collector.remove(run_target({asked->run, std::nullopt}, ""));
    const Table table{"",
                      {{"run", "run", Align::left}, {"deleted", "deleted", Align::left}},
                      {{text_cell(at(answer, "run")), text_cell(at(answer, "deleted"))}}};
    context.show({{table}, table, answer});
  });
}

}  // namespace laggard::client
