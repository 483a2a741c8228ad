#include "agent/api/log_sink.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <mutex>

namespace laggard::agent {
namespace {

// write(), and no SIGPIPE for the thread of the job that it is called on. One that was pending before is the
// job's.
ssize_t write_without_sigpipe(int fd, const char* bytes, std::size_t size) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t written = ::write(fd, bytes, size);
  if (written < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec now{};
    while (sigtimedwait(&pipe, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return written;
}

class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // What poll() promises of a pipe is room for so many bytes.
    const std::size_t size = std::min<std::size_t>(line.size(), PIPE_BUF);
    pollfd item{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&item, 1, 0) == 1 && (item.revents & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT)
      lost_ = write_without_sigpipe(STDERR_FILENO, line.data(), size) < 0;
  }
  void flush_() override {}

 private:
  bool lost_ = false;  // the last line; there is nobody to tell
};

}  // namespace

std::shared_ptr<spdlog::logger> make_api_log() {
  auto log = std::make_shared<spdlog::logger>("laggard", std::make_shared<StderrSink>());
  log->set_level(spdlog::level::warn);
  return log;
}

}  // namespace laggard::agent
