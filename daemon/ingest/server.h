// The ingest thread: owns the ROUTER socket that agents connect to.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/bounded_queue.h"
#include "daemon/ingest/connection_guard.h"
#include "daemon/ingest/messages.h"
#include "daemon/ingest/sessions.h"

namespace laggard::ingest {

/// What the collector needs to take nobody but agents with an allowed key.
struct Security {
  std::string secret_key;  ///< the collector's own
  std::string allow_list_file;
};

/// Reads messages of agents into a queue for the engine and sends what the engine replies. When the queue is
/// full it stops reading, so that agents feel it through their windows.
class Server {
 public:
  using Queue = BoundedQueue<Message>;

  /// Binds at once; throws Error when the address cannot be had, or the allow-list not be read. More than
  /// `connections` at once are not taken. Without `security` nothing is encrypted, and everybody is taken.
  /// `to_engine` must outlive the server.
  Server(const std::string& address, std::string collector_id, Queue& to_engine,
         std::function<core::UnixMs()> now, std::size_t connections,
         const std::optional<Security>& security = std::nullopt);
  ~Server();

  /// The address with its real port.
  const std::string& address() const { return address_; }
  void start();
  /// Reads no more, and returns when nothing more will be put in the queue. Replies still go out.
  void stop_reading();
  /// Sends what was replied so far, closes the socket and ends the thread.
  void stop();

  /// Hands replies to the thread. Any thread.
  void reply(std::vector<Reply> replies);
  /// Tells the thread that the queue has room again. Any thread.
  void queue_drained();
  /// Any thread.
  Counts counts() const;
  ConnectionCounts connection_counts() const;

 private:
  class Loop;
  std::string address_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace laggard::ingest
