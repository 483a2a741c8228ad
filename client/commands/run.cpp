#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "client/commands/commands.h"
#include "client/http/url.h"
#include "client/process/job.h"
#include "client/process/own_collector.h"
#include "client/render/text.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLastRecords = 3s;  // for the end of a job's ranks to be seen
constexpr auto kLookAgain = 100ms;

struct RunOptions {
  std::string name, data;
  bool keep = false;
  std::vector<std::string> command;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As a training script names a run that nobody names: the script's name, or the program's.
std::string name_of(const RunOptions& options) {
  if (!options.name.empty()) return options.name;
  if (std::string said = variable("LAGGARD_RUN"); !said.empty()) return said;
  for (const std::string& word : options.command)
    if (word.ends_with(".py")) return fs::path(word).stem();
  return fs::path(options.command.front()).filename();
}

fs::path data_of(const RunOptions& options) {
  if (!options.data.empty()) return options.data;
  if (const std::string state = variable("XDG_STATE_HOME"); state.starts_with('/')) return state + "/laggard";
  const std::string home = variable("HOME");
  if (home.empty()) throw Failure(ExitCode::usage, "where to keep the records is not known: give --data DIR");
  return home + "/.local/state/laggard";
}

// Everything that this command says is beside the job's own output.
class Teller {
 public:
  explicit Teller(const Context& context) : context_(context) {}
  void say(const std::string& sentence) const {
    context_.console.err("laggard: " + printable(sentence) + '\n');
  }
  void show(const View& view) const { context_.console.err(write_view(view, context_.style())); }

 private:
  const Context& context_;
};

bool is_answering(const Collector& collector) {
  try {
    collector.get("/api/v1/status");
    return true;
  } catch (const NoAnswer&) {
    return false;
  }
}

// The run's status; null while the collector does not know it.
Json status_of(const Collector& collector, const RunRef& run) {
  try {
    return collector.get(run_target(run));
  } catch (const NoAnswer&) {
    return {};
  }
}

// True when something has come since `before`. The last records of a job that has ended are on their way for
// a moment, and one that broke off says no end.
bool wait_for_end(const Collector& collector, const RunRef& run, const Json& before) {
  const auto until = std::chrono::steady_clock::now() + kLastRecords;
  for (;; std::this_thread::sleep_for(kLookAgain)) {
    const Json now = status_of(collector, run);
    const bool has_come = at(now, "last_received_unix_ms") != at(before, "last_received_unix_ms");
    if (has_come && text(at(now, "state")) == "ended") return true;
    if (std::chrono::steady_clock::now() > until) return has_come;
  }
}

void show_result(const Collector& collector, const RunRef& run, const Json& before, const Teller& teller) {
  if (!wait_for_end(collector, run, before))
    return teller.say("nothing of run \"" + run.name +
                      "\" has come: does the job use laggard? See docs/python.md");
  const Json report = collector.post("/api/v1/report", report_request({run.name}, {}, ""));
  if (const auto empty = empty_runs(collector, at(report, "runs")); !empty.empty()) {
    for (const std::string& sentence : empty) teller.say(sentence);
    return;
  }
  teller.show(report_view(report, {}));
  teller.show(verdict_view(at(report, "runs").at(0)));
}

bool is_fed_by_others(const Collector& collector, const std::string& name) {
  const Json runs = collector.get("/api/v1/runs");
  for (const Json& run : at(runs, "runs"))
    if (text(at(run, "run")) != name && text(at(run, "state")) == "running") return true;
  return false;
}

void end_own_collector(OwnCollector& own, const RunOptions& options, const std::string& name,
                       const Collector& collector, const Teller& teller) {
  const std::string again = "laggardd --data " + own.data().string();
  if (options.keep || is_fed_by_others(collector, name))
    return teller.say("the collector goes on, process " + std::to_string(own.leave()) +
                      ": kill it when you are done");
  own.stop();
  teller.say("the records are in " + own.data().string() + "; to look at them again: " + again);
}

Job::Variables variables_for(const std::string& name, const std::string& ingest) {
  Job::Variables variables{{"LAGGARD_RUN", name}};
  if (variable("LAGGARD_INGEST").empty()) variables["LAGGARD_INGEST"] = ingest;
  if (const fs::path library = own_library(); variable("LAGGARD_LIBRARY").empty() && !library.empty())
    variables["LAGGARD_LIBRARY"] = library;
  return variables;
}

void run_job(Context& context, const RunOptions& options) {
  const Teller teller(context);
  const std::string name = name_of(options);
  const RunRef run{name, std::nullopt};
  const Collector collector = context.collector();
  std::optional<OwnCollector> own;
  if (!is_answering(collector))
    own.emplace(data_of(options), parse_endpoint(context.address), variable("LAGGARD_INGEST"));
  const std::string ingest = ingest_address(collector, context.address);
  const std::string elsewhere = context.address == Context::kAddress ? "" : " --collector " + context.address;
  teller.say((own ? "started a collector; " : "") + ("run \"" + name + "\": laggard status ") + name +
             " --watch" + elsewhere);

  const Json before = status_of(collector, run);
  const int code = Job(options.command, variables_for(name, ingest)).wait();
  // Whatever becomes of the rest, the job has ended as it has.
  context.exit_code = static_cast<ExitCode>(code);
  try {
    show_result(collector, run, before, teller);
    if (own) end_own_collector(*own, options, name, collector, teller);
  } catch (const Failure& failure) {
    teller.say(failure.what());
  }
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = add_command(
      app, "run",
      "Starts a training job, with a collector when none is there, and says at its end how it went",
      "While a job runs", "laggard run --name llm -- torchrun --nproc_per_node 8 train.py",
      "The job finds the collector and the run's name in its environment. Signals are passed on to it, and "
      "the\n"
      "exit code is the job's: 128 and the signal's number when one ended it, 127 when there is no such "
      "program.\n"
      "What laggard says goes to standard error.");
  command->add_option("--name", options->name,
                      "The run's name. Default: LAGGARD_RUN, else that of the script or program");
  command->add_option(
      "--data", options->data,
      "Where a collector that has to be started keeps its records. Default: the folder laggard in "
      "XDG_STATE_HOME");
  command->add_flag("--keep", options->keep, "Leave a collector that was started running");
  command->add_option("command", options->command, "The job, behind --")->required();
  command->callback([&context, options] { run_job(context, *options); });
}

}  // namespace laggard::client
