#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "daemon/app/config.h"
#include "daemon/app/daemon.h"
#include "daemon/app/service_manager.h"
#include "daemon/base/error.h"

namespace {

std::optional<std::string> from_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const laggard::app::ParsedConfig parsed = laggard::app::parse_config(argc, argv, from_environment);
  if (!parsed.config.has_value()) {
    std::fputs(parsed.message.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  laggard::app::keep_freed_memory();
  spdlog::set_default_logger(spdlog::stderr_color_mt("laggardd"));
  spdlog::set_level(spdlog::level::from_str(parsed.config->log_level));

  // Every thread inherits the mask, so that signals come to sigwait() alone.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  try {
    std::atomic<bool> failed = false;
    laggard::app::ServiceManager manager(from_environment);
    laggard::app::Daemon daemon(
        *parsed.config,
        [&failed] {
          failed = true;
          kill(getpid(), SIGTERM);
        },
        [&manager] { manager.turned(std::chrono::steady_clock::now()); });
    std::printf("%s\n", daemon.ready_line().c_str());
    std::fflush(stdout);
    manager.ready(daemon.ready_line());
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("signal {}: stopping", signal);
    manager.stopping();
    if (failed) return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "laggardd: %s\n", error.what());
    return 1;
  }
  return 0;
}
