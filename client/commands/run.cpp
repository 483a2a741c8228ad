#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <variant>

#include "agent/api/settings.h"
#include "agent/launcher.h"
#include "client/commands/commands.h"
#include "client/http/url.h"
#include "client/process/job.h"
#include "client/process/own_collector.h"
#include "client/process/time_limit.h"
#include "client/render/text.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLastRecords = 3s;  // for the end of a job's ranks to be seen
constexpr auto kLookAgain = 100ms;
// A job, or whoever has waited for its end, waits behind these.
constexpr auto kAnswer = 4s, kReport = 20s;
constexpr std::size_t kAttemptsLookedAt = 16;  // of a run, the newest

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
std::string asked_name(const RunOptions& options) {
  if (!options.name.empty()) return options.name;
  if (std::string said = variable("LAGGARD_RUN"); !said.empty()) return said;
  for (const std::string& word : options.command)
    if (word.ends_with(".py")) return fs::path(word).stem();
  return fs::path(options.command.front()).filename();
}

// Throws Failure (usage) for what the command line itself says wrongly: that alone keeps a job from starting.
void check_usage(const Context& context, const RunOptions& options) {
  if (options.command.empty())
    throw Failure(ExitCode::usage, "which job? It stands behind --: laggard run -- torchrun train.py");
  if (const auto why = agent::bad_run_name(options.name); why && !options.name.empty())
    throw Failure(ExitCode::usage, "--name " + options.name + " can be no run's: " + *why);
  if (context.address != variable("LAGGARD_COLLECTOR")) parse_endpoint(context.address);
}

fs::path data_of(const RunOptions& options) {
  if (!options.data.empty()) return options.data;
  if (const std::string state = variable("XDG_STATE_HOME"); state.starts_with('/')) return state + "/laggard";
  const std::string home = variable("HOME");
  if (home.empty())
    throw Failure(ExitCode::usage,
                  "where a collector could keep the records is not known, since there is no "
                  "HOME: give --data DIR");
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

// As the library in the job would call it.
std::string name_of(const RunOptions& options, const Teller& teller) {
  std::string asked = asked_name(options);
  const auto why = agent::bad_run_name(asked);
  if (!why) return asked;
  std::string usable = agent::usable_run_name(asked);
  if (usable.empty()) usable = "job";
  teller.say("no run can have the name " + asked + ": " + *why + ". It is called " + usable +
             "; --name can give it another");
  return usable;
}

template <typename Question>
auto ask(const Collector& collector, std::chrono::seconds limit, Question question) {
  if (auto answer = within(limit, std::move(question))) return *std::move(answer);
  if (end_is_asked()) throw Failure(ExitCode::failed, "told to end: what the job was like is not said");
  throw NoAnswer(ExitCode::unreachable, "the collector at " + collector.address() + " has not answered in " +
                                            std::to_string(limit.count()) +
                                            " s: is it stopped or overloaded, is the address right?");
}

Json get(const Collector& collector, const std::string& target) {
  return ask(collector, kAnswer, [collector, target] { return collector.get(target); });
}

// The run's status; null while the collector does not know it.
Json status_of(const Collector& collector, const RunRef& run) {
  try {
    return get(collector, run_target(run));
  } catch (const NoAnswer& failure) {
    if (failure.code() != ExitCode::no_such_data) throw;
    return {};
  }
}

/// Where the job's records go.
struct Destination {
  explicit Destination(const Context& context) : collector(context.collector()), address(context.address) {}

  /// Throws Failure when it is no collector that answers.
  void look() {
    ingest = ask(collector, kAnswer, [asked = collector, at = address] { return ingest_address(asked, at); });
  }

  Collector collector;
  std::string address;
  std::unique_ptr<OwnCollector> own;  // null: it was there
  std::string ingest;
  Json before;  // the status of a run of this name
};

// Throws whatever keeps the job's records from being kept.
Destination find_destination(const Context& context, const RunOptions& options, const std::string& name) {
  Destination found(context);
  try {
    found.look();
  } catch (const NoAnswer&) {
    const Endpoint http = parse_endpoint(context.address);
    if (!OwnCollector::could_answer_at(http)) throw;
    found.own = std::make_unique<OwnCollector>(data_of(options), http, variable("LAGGARD_INGEST"));
    found.look();
  }
  found.before = status_of(found.collector, {name, std::nullopt});
  return found;
}

// Nothing, which has been said, when the job has to do without.
std::optional<Destination> destination_of(const Context& context, const RunOptions& options,
                                          const std::string& name, const Teller& teller) {
  try {
    Destination found = find_destination(context, options, name);
    const std::string elsewhere =
        context.address == Context::kAddress ? "" : " --collector " + context.address;
    teller.say((found.own ? "started a collector; " : "") + ("run \"" + name + "\": laggard status ") + name +
               " --watch" + elsewhere);
    return found;
  } catch (const std::exception& error) {
    teller.say(error.what());
    teller.say("the job starts all the same; nothing will be said of it at its end");
    return std::nullopt;
  }
}

// The newest attempt that a rank of this job is in: others may have begun one of the same name meanwhile.
std::optional<RunRef> attempt_of_job(const Collector& collector, const std::string& name,
                                     const std::string& mark) {
  const Json attempts = at(status_of(collector, {name, std::nullopt}), "attempts");
  if (!attempts.is_array()) return std::nullopt;
  std::size_t looked_at = 0;
  for (auto it = attempts.rbegin(); it != attempts.rend() && looked_at < kAttemptsLookedAt;
       ++it, ++looked_at) {
    const RunRef run{name, static_cast<std::uint32_t>(integer(*it).value_or(0))};
    const Json answer = get(collector, run_target(run, "/ranks"));
    for (const Json& rank : at(answer, "ranks"))
      if (text(at(at(rank, "settings"), "laggard_job")) == mark) return run;
  }
  return std::nullopt;
}

// The attempt of this job; where nothing bears its mark, as with files that an agent follows, the newest one,
// if something has come since `before`. The last records of a job that has ended are on their way for a
// moment, and one that broke off says no end.
std::optional<RunRef> wait_for_end(const Collector& collector, const std::string& name,
                                   const std::string& mark, const Json& before) {
  const auto until = std::chrono::steady_clock::now() + kLastRecords;
  for (;; std::this_thread::sleep_for(kLookAgain)) {
    const auto marked = attempt_of_job(collector, name, mark);
    const RunRef run = marked.value_or(RunRef{name, std::nullopt});
    const Json now = status_of(collector, run);
    const bool has_come = marked || at(now, "last_received_unix_ms") != at(before, "last_received_unix_ms");
    const bool is_late = std::chrono::steady_clock::now() > until || end_is_asked();
    if (has_come && (is_late || text(at(now, "state")) == "ended")) return run;
    if (is_late) return std::nullopt;
  }
}

struct Result {
  Json report;
  std::vector<std::string> empty;  // sentences about what has no step
};

Result result_of(const Collector& collector, const std::string& name) {
  return ask(collector, kReport, [collector, name] {
    Result result{collector.post("/api/v1/report", report_request({name}, {}, "")), {}};
    result.empty = empty_runs(collector, at(result.report, "runs"));
    return result;
  });
}

// The report, and what it does not say of the verdict.
View result_view(const Json& report) {
  View view = report_view(report, {}), more = verdict_view(at(report, "runs").at(0));
  if (auto* facts = std::get_if<Facts>(&more.screen.front()))
    std::erase_if(*facts, [](const Fact& fact) { return fact.label == "verdict" || fact.label == "window"; });
  std::move(more.screen.begin(), more.screen.end(), std::back_inserter(view.screen));
  return view;
}

std::string why_nothing_came() {
  if (agent::is_disabled()) return "LAGGARD_DISABLED is set, and then nothing is measured";
  return "does the job use laggard? See docs/python.md";
}

void show_result(const Destination& destination, const std::string& name, const std::string& mark,
                 const Teller& teller) {
  const Collector& collector = destination.collector;
  const auto run = wait_for_end(collector, name, mark, destination.before);
  if (!run) return teller.say("nothing of run \"" + name + "\" has come: " + why_nothing_came());
  const std::string attempt = run->attempt ? "@" + std::to_string(*run->attempt) : "";
  const Result result = result_of(collector, name + attempt);
  for (const std::string& sentence : result.empty) teller.say(sentence);
  if (!result.empty.empty()) return;
  teller.show(result_view(result.report));
  const Json& verdict = at(at(result.report, "runs").at(0), "verdict");
  if (const std::string sentence = text(at(verdict, "sentence")); !sentence.empty())
    teller.say("verdict: " + sentence);
}

// One that cannot be asked is of no use to them either.
bool is_fed_by_others(const Collector& collector, const std::string& name) {
  // Those that had records before it was started may have died without an end.
  std::int64_t started = 0;
  Json runs;
  try {
    started = integer(at(get(collector, "/api/v1/status"), "started_unix_ms")).value_or(0);
    runs = get(collector, "/api/v1/runs");
  } catch (const Failure&) {
    return false;
  }
  for (const Json& run : at(runs, "runs"))
    if (text(at(run, "run")) != name && text(at(run, "state")) == "running" &&
        integer(at(run, "last_received_unix_ms")).value_or(0) >= started)
      return true;
  return false;
}

void end_own_collector(const Destination& destination, const RunOptions& options, const std::string& name,
                       const Teller& teller) {
  OwnCollector& own = *destination.own;
  if (options.keep || is_fed_by_others(destination.collector, name))
    return teller.say("the collector goes on, process " + std::to_string(own.leave()) +
                      ": kill it when you are done");
  if (const pid_t left = own.stop(); left != 0)
    teller.say("the collector was told to end and has not, process " + std::to_string(left) +
               ": kill it, with -9 if it must be");
  teller.say("the records are in " + own.data().string() + "; to look at them again: laggardd --data " +
             own.data().string());
}

// No other job has it.
std::string make_mark() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

// `ingest` is "" when it is not known.
Job::Variables variables_for(const std::string& name, const std::string& mark, const std::string& ingest) {
  Job::Variables variables{{"LAGGARD_RUN", name}, {"LAGGARD_JOB", mark}};
  if (variable("LAGGARD_INGEST").empty() && !ingest.empty()) variables["LAGGARD_INGEST"] = ingest;
  if (const fs::path library = own_library(); variable("LAGGARD_LIBRARY").empty() && !library.empty())
    variables["LAGGARD_LIBRARY"] = library;
  return variables;
}

// Whatever becomes of it, the job has ended as it has.
template <typename Step>
void try_to(const Teller& teller, Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    teller.say(error.what());
  }
}

void run_job(Context& context, const RunOptions& options) {
  check_usage(context, options);
  const Teller teller(context);
  const std::string name = name_of(options, teller), mark = make_mark();
  const auto destination = destination_of(context, options, name, teller);
  Job job(options.command, variables_for(name, mark, destination ? destination->ingest : ""));
  context.exit_code = static_cast<ExitCode>(job.wait());
  if (const std::string why = job.trouble(); !why.empty())
    teller.say(options.command.front() + " cannot be started: " + why);
  if (!destination) return;
  if (job.trouble().empty()) try_to(teller, [&] { show_result(*destination, name, mark, teller); });
  if (destination->own) try_to(teller, [&] { end_own_collector(*destination, options, name, teller); });
}

// CLI11 would read the job's words as its own: "[a,b]" as a list of two, --help as a wish for this program's.
std::vector<std::string> take_job(std::vector<std::string>& words_left) {
  const auto mark = std::find(words_left.rbegin(), words_left.rend(), "--");
  if (mark == words_left.rend()) return {};
  std::vector<std::string> job(mark + 1, words_left.rend());
  words_left.erase(words_left.begin(), mark.base());
  return job;
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = add_command(
      app, "run",
      "Starts a training job, with a collector when none is there, and says at its end how it went",
      "While a job runs", "laggard run --name llm -- torchrun --nproc_per_node 8 train.py",
      "The job finds the collector and the run's name in its environment. Each of its words is passed on as "
      "it is.\n"
      "What is wrong with the collector is said and keeps no job from starting. Signals are passed on to "
      "the\n"
      "job's own process group, and the exit code is the job's: 128 and the signal's number when one ended "
      "it,\n"
      "127 when there is no such program, 2 when this command line is wrong and nothing was started.\n"
      "What laggard says goes to standard error.");
  command->add_option("--name", options->name,
                      "The run's name. Default: LAGGARD_RUN, else that of the script or program");
  command->add_option(
      "--data", options->data,
      "Where a collector that has to be started keeps its records. Default: the folder laggard in "
      "XDG_STATE_HOME");
  command->add_flag("--keep", options->keep, "Leave a collector that was started running");
  command
      ->add_option_function<std::string>(
          "command",
          [](const std::string& word) {
            throw Failure(ExitCode::usage, "the job stands behind --: laggard run -- " + word + " ...");
          },
          "The job, behind --")
      ->option_text("-- PROGRAM ...");
  command->preparse_callback(
      [&context, options](std::size_t) { options->command = take_job(context.words_left); });
  command->callback([&context, options] { run_job(context, *options); });
}

}  // namespace laggard::client
