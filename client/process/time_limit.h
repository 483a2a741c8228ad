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

/// What the task returns or throws; nothing when that takes longer. The task then goes on by itself until
/// this program ends: it may use only what it holds.
template <typename Task>
auto within(std::chrono::seconds limit, Task task) -> std::optional<decltype(task())> {
  std::packaged_task<decltype(task())()> work(std::move(task));
  auto result = work.get_future();
  {
    const NoSignals inherited;
    std::thread(std::move(work)).detach();
  }
  if (result.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace laggard::client
