// What a service manager, such as systemd, is told.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/app/config.h"

namespace laggard::app {

/// The datagrams of sd_notify(3), to the socket that NOTIFY_SOCKET names; nothing when there is none.
class ServiceManager {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Throws Error for a socket that cannot be one.
  explicit ServiceManager(const Environment& environment);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// Everything answers; `status` is one line for `systemctl status`.
  void ready(const std::string& status) const;
  void stopping() const;
  /// Called on each turn of the loop that must not hang; sends WATCHDOG=1 three times in the interval after
  /// which the service manager gives up. Never waits. One thread.
  void turned(Clock::time_point now);

 private:
  void send(const std::string& text, int flags) const;

  int socket_ = -1;
  std::string address_;  // in the form of sockaddr_un, an abstract one begins with a NUL
  Clock::duration feed_every_ = Clock::duration::zero();  // zero: no watchdog
  Clock::time_point next_feed_ = Clock::time_point::min();
};

}  // namespace laggard::app
