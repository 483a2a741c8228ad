#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/commands/watch.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

// The run that is meant when none is named: the running one, else the only one there is.
std::optional<RunRef> obvious_run(const Json& runs) {
  std::vector<std::string> running, all;
  const Json& list = at(runs, "runs");
  if (!list.is_array()) return std::nullopt;
  for (const Json& run : list) {
    all.push_back(text(at(run, "run")));
    if (text(at(run, "state")) == "running") running.push_back(all.back());
  }
  const auto& candidates = running.empty() ? all : running;
  if (candidates.size() != 1) return std::nullopt;
  return RunRef{candidates.front(), std::nullopt};
}

void show_status(Context& context, const std::string& name, bool watch) {
  const Collector collector = context.collector();
  std::optional<RunRef> run;
  if (name.empty()) {
    const Json runs = collector.get("/api/v1/runs");
    if (at(runs, "runs").empty()) {
      throw Failure(ExitCode::no_such_data,
                    "the collector at " + collector.address() +
                        " has no run yet: laggard-agent --run NAME FILE... begins one");
    }
    run = obvious_run(runs);
    if (!run && watch) throw Failure(ExitCode::usage, "there are several runs: name the one to watch");
    if (!run) return context.show(runs_view(runs));
  } else {
    run = parse_run(name);
  }
  if (watch) return watch_run(context, *run);
  context.show(status_view(collector.get(run_target(*run)), context.console.terminal().columns));
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  struct Options {
    std::string run;
    bool watch = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, "status", "Which rank and stage holds a run back, on one screen",
                                  "While a job runs", "laggard status job --watch");
  command->add_option("run", options->run, "The run; not needed while one is running");
  command->add_flag("--watch", options->watch,
                    "Redraw on every step until the run has ended; in a pipe, print one line for each step");
  command->callback([&context, options] { show_status(context, options->run, options->watch); });
}

}  // namespace laggard::client
