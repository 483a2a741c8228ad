// laggard-agent: follows JSONL files and delivers their records to a collector.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <csignal>

#include <CLI/CLI.hpp>
#include <iostream>

#include "agent/agent.h"
#include "agent/launcher.h"
#include "agent/progress.h"
#include "agent/report.h"
#include "daemon/base/error.h"
#include "daemon/keys/key_file.h"

namespace {

constexpr int kFine = 0, kFailed = 1, kUsage = 2, kUnreachable = 3;

constexpr const char* kExamples = R"(Examples:
  laggard-agent --run mine /logs/rank*.jsonl          follow the files of a job on this host
  laggard-agent --run mine '/logs/rank*.jsonl'        the same, files that appear later too
  laggard-agent --run old --once /logs/rank0.jsonl    deliver a finished file and exit
  laggard-agent --key node1.secret --collector-key collector.pub --run mine /logs/rank*.jsonl

Files are followed until SIGTERM or SIGINT; what is there then is delivered within 2 s. At its end the agent
prints what became of every line. Progress is kept in $LAGGARD_STATE_DIR, else in
$XDG_STATE_HOME/laggard/agent, else in ~/.local/state/laggard/agent.
Exit codes: 0 fine, 1 failed, 2 usage or a file that --once cannot read, 3 collector unreachable with --once
(nothing heard for 10 s) or refusing.)";

struct Arguments {
  laggard::agent::DeliveryOptions delivery;
  std::string profile, output = "text", log_level = "info";
  std::string key, collector_key;
};

void declare(CLI::App& app, Arguments& arguments) {
  laggard::agent::DeliveryOptions& delivery = arguments.delivery;
  delivery.collector = "tcp://127.0.0.1:17600";
  app.add_option("files", delivery.files, "JSONL files, or quoted patterns of files")
      ->required()
      ->check([](const std::string& file) {
        return file.empty() ? std::string("a file's name is empty") : std::string();
      });
  app.add_option("--collector", delivery.collector, "address of the collector")
      ->envname("LAGGARD_INGEST")
      ->capture_default_str();
  app.add_option("--run", delivery.run, "name of the run")
      ->envname("LAGGARD_RUN")
      ->required()
      ->check([](const std::string& name) {
        const auto why = laggard::agent::bad_run_name(name);
        return why ? "no run can have this name: " + *why : std::string();
      });
  app.add_option("--key", arguments.key, "file of this agent's secret key, for a collector that wants keys")
      ->envname("LAGGARD_KEY");
  app.add_option("--collector-key", arguments.collector_key, "the collector's public key, or its file")
      ->envname("LAGGARD_COLLECTOR_KEY");
  app.add_flag("--once", delivery.once, "deliver the files as they are, from their start, and exit");
  app.add_option("--profile", arguments.profile, "job profile (TOML) whose stages are told to the collector")
      ->check(CLI::ExistingFile);
  app.add_flag("--poll", delivery.poll, "look at the files instead of using inotify");
  app.add_option("-o,--output", arguments.output, "form of the summary")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--log-level", arguments.log_level, "what goes to stderr")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.footer(kExamples);
}

// The two signals arrive through the descriptor alone; threads started later inherit the block.
int block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int run(Arguments& arguments) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("laggard-agent"));
  spdlog::set_level(spdlog::level::from_str(arguments.log_level));
  laggard::agent::DeliveryOptions& delivery = arguments.delivery;
  delivery.keys = laggard::keys::read_peer_keys(arguments.key, arguments.collector_key);
  if (!arguments.profile.empty())
    delivery.stages = laggard::agent::stages_of(laggard::load_profile(arguments.profile));
  delivery.state_directory = laggard::agent::ProgressStore::default_directory();
  delivery.stop_fd = block_stop_signals();
  const laggard::agent::DeliveryReport report = laggard::agent::deliver_files(delivery);
  std::cout << (arguments.output == "json" ? laggard::agent::report_json(report)
                                           : laggard::agent::report_text(report))
            << std::flush;
  return delivery.once && report.undelivered() > 0 ? kUnreachable : kFine;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Follows the JSONL files of a training job and delivers their records to a laggard collector."};
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kFine : kUsage;
  }
  try {
    return run(arguments);
  } catch (const laggard::Error& error) {
    std::cerr << "laggard-agent: " << error.what() << "\n";
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "laggard-agent: stopped by an unexpected failure: " << error.what() << "\n";
    return kFailed;
  }
}
