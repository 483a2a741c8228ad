// The terminal's second screen, for a view that redraws itself.
#pragma once

namespace laggard::client {

/// Shows the second screen while it lives. The first one comes back, cursor and all, when it goes, and also
/// when a signal ends or stops the process; that signal then does what it always does. One at a time.
class AlternateScreen {
 public:
  AlternateScreen();
  ~AlternateScreen();
  AlternateScreen(const AlternateScreen&) = delete;
  AlternateScreen& operator=(const AlternateScreen&) = delete;
};

}  // namespace laggard::client
