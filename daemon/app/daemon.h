// The collector as a whole: its threads, how they start and in which order they stop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/app/config.h"

namespace laggard::app {

/// Has the allocator keep memory that was freed instead of giving it back to the kernel: under load the same
/// buffers are needed again within milliseconds, and getting them back page by page costs a tenth of the
/// processor time. For main(), before any thread.
void keep_freed_memory();

/// Everything between start and stop of laggardd. docs/architecture.md has the threads and the stop order.
class Daemon {
 public:
  /// Opens the database, binds both addresses and begins to serve. Throws Error. `failed` is called, on a
  /// thread of the daemon, when it cannot go on and has to be stopped; `turned` on each turn of the engine's
  /// loop.
  Daemon(
      const Config& config, std::function<void()> failed, std::function<void()> turned = [] {});
  /// Stops in order; what was received is durable and acknowledged when it returns.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// One line for people and scripts that says where it can be reached.
  std::string ready_line() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace laggard::app
