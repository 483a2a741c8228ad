#include "client/alternate_screen.h"

#include <unistd.h>
#include <csignal>

#include <cerrno>
#include <string_view>

namespace laggard::client {
namespace {

// Lines are cut at the right edge (?7) and the cursor is hidden (?25).
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// write() is one of the few things a signal handler may do.
void put(std::string_view text) {
  const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
  static_cast<void>(written);
}

void end(int signal) {
  put(kLeave);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void stop(int) {
  const int saved = errno;
  put(kLeave);
  ::raise(SIGSTOP);
  // SIGCONT goes on from here.
  put(kEnter);
  errno = saved;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

AlternateScreen::AlternateScreen() {
  for (const int signal : kEnding) handle(signal, end);
  handle(SIGTSTP, stop);
  put(kEnter);
}

AlternateScreen::~AlternateScreen() {
  put(kLeave);
  for (const int signal : kEnding) handle(signal, SIG_DFL);
  handle(SIGTSTP, SIG_DFL);
}

}  // namespace laggard::client
