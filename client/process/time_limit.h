// For what may take longer than anybody wants to wait: the name of a host, an answer.
#pragma once

#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace laggard::client {

/// A thread that is started meanwhile takes none of the signals that others wait for.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

inline constexpr int kEnds[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Whether a signal that is blocked waits to end this program.
inline bool end_is_asked() {
  sigset_t waiting;
  sigpending(&waiting);
  for (const int signal : kEnds)
    if (sigismember(&waiting, signal) == 1) return true;
  return false;
}

/// What the task returns or throws; nothing when that takes longer, or an end is asked for. The task then
/// goes on by itself until this program ends: it may use only what it holds.
template <typename Task>
auto within(std::chrono::seconds limit, Task task) -> std::optional<decltype(task())> {
  std::packaged_task<decltype(task())()> work(std::move(task));
  auto result = work.get_future();
  {
    const NoSignals inherited;
    std::thread(std::move(work)).detach();
  }
  constexpr std::chrono::milliseconds kLook{50};
  const auto until = std::chrono::steady_clock::now() + limit;
  while (result.wait_for(kLook) != std::future_status::ready)
    if (end_is_asked() || std::chrono::steady_clock::now() > until) return std::nullopt;
  return result.get();
}

}  // namespace laggard::client
