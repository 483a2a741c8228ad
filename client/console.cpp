#include "client/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "client/failure.h"

namespace laggard::client {
namespace {

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      throw OutputClosed{};
    } else if (errno != EINTR) {
      throw Failure(ExitCode::failed, "cannot write the output: " + std::generic_category().message(errno));
    }
  }
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

Terminal measure() {
  Terminal terminal;
  terminal.present = isatty(STDOUT_FILENO) == 1;
  if (!terminal.present) return terminal;
  const char* term = std::getenv("TERM");
  terminal.redraws = term != nullptr && std::string_view(term) != "dumb";
  terminal.color = terminal.redraws && !is_set("NO_COLOR");
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    terminal.columns = size.ws_col;
    terminal.rows = size.ws_row;
  }
  return terminal;
}

}  // namespace

Console system_console() {
  return {.out = [](std::string_view text) { write_all(STDOUT_FILENO, text); },
          .err =
              [](std::string_view text) {
                // Nobody is left to tell when this fails, and the exit code still says it.
                if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
              },
          .terminal = measure};
}

}  // namespace laggard::client
