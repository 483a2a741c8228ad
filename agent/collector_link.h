// The agent's connection to a collector.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "daemon/keys/key.h"

namespace laggard::agent {

/// One ZeroMQ DEALER socket that connects, and connects again, by itself. It holds at most one message that
/// could not be sent at once. For one thread.
class CollectorLink {
 public:
  enum class Event : std::uint8_t { connected, disconnected, refused };

  /// Why the two sides did not come to terms.
  enum class Refusal : std::uint8_t {
    none,
    key_not_allowed,
    one_side_without_key,
    other_collector,  ///< what answers cannot have the secret to the public key that it should have
    hung_up           ///< the collector went away instead of an answer: any of the above, or it was stopped
  };

  /// Without keys nothing is encrypted. Throws Error for an endpoint that cannot be one.
  explicit CollectorLink(const std::string& endpoint, std::optional<keys::PeerKeys> keys = std::nullopt);
  ~CollectorLink();

  /// What happened to the connection since the last call, one after the other.
  std::optional<Event> next_event();
  bool is_connected() const;
  /// Of the last attempt to connect; none once one has succeeded.
  Refusal refusal() const;
  /// True when a message would be taken: connected, and none is waiting.
  bool is_ready();
  /// Sends, or holds the message until the socket takes it. Only after is_ready().
  void send(std::string message);
  std::optional<std::string> receive();
  /// Returns when there is something to receive, when the connection changed, when a held message can go,
  /// when one of `fds` (-1: none) is readable, or after `timeout`.
  void wait(std::span<const int> fds, std::chrono::milliseconds timeout);
  /// Gives what was sent last so long to leave before the socket is closed.
  void set_linger(std::chrono::milliseconds linger);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace laggard::agent
