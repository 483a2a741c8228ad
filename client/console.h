// Where a command writes to.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace laggard::client {

/// What the standard output is at this moment; its size changes when a window does.
struct Terminal {
  bool present = false;  ///< false: a file or a pipe
  bool color = false;
  bool redraws = false;  ///< obeys escape codes, so that a screen can be written over
  std::size_t columns = 80, rows = 24;
};

/// Whoever read our output has gone. That is no error: `laggard steps job | head` is a fine thing to ask.
struct OutputClosed {};

struct Console {
  std::function<void(std::string_view)> out;  ///< throws OutputClosed, or Failure when the disk is full
  std::function<void(std::string_view)> err;  ///< sentences for the person
  std::function<Terminal()> terminal;
};

/// The process' own output. Colour needs a terminal, no NO_COLOR and a TERM that is not "dumb".
Console system_console();

}  // namespace laggard::client
