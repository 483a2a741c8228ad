// How many connections the agents' port has, and that they do not become too many.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <zmq.hpp>

namespace laggard::ingest {

/// What became of connections, handshakes and accepts.
struct ConnectionCounts {
  std::uint64_t connections = 0;             ///< open now
  std::uint64_t connections_refused = 0;     ///< shut down at once: there were as many as there may be
  std::uint64_t connections_unaccepted = 0;  ///< accept() failed, for want of descriptors mostly
  std::uint64_t handshakes_refused = 0;      ///< no ZeroMQ, not in time, or no key that is allowed
};

/// Watches a bound ZeroMQ socket on a thread of its own and shuts down connections beyond `most`. ZeroMQ
/// itself has no bound. It accepts until the process has no descriptor left, and then asks for the next
/// connection again and again, with a whole core.
class ConnectionGuard {
 public:
  /// Before the socket is bound, so that no connection goes unseen.
  ConnectionGuard(zmq::context_t& context, zmq::socket_t& socket, std::size_t most);
  /// On the thread that uses the socket, which must still be open.
  ~ConnectionGuard();
  ConnectionGuard(const ConnectionGuard&) = delete;
  ConnectionGuard& operator=(const ConnectionGuard&) = delete;

  /// The port that was bound; 0, as before, for a socket without one.
  void listens_on(std::uint16_t port) { port_ = port; }
  /// Any thread.
  ConnectionCounts counts() const;

 private:
  void run();
  void take(std::uint16_t event, int descriptor);
  void accepted(int descriptor);
  bool is_ours(int descriptor) const;

  zmq::socket_t& socket_;
  zmq::socket_t events_;  // of the thread
  const std::size_t most_;
  std::atomic<std::uint16_t> port_ = 0;
  std::set<int> open_;  // of the thread: descriptors of connections
  std::atomic<std::uint64_t> connections_ = 0, refused_ = 0, unaccepted_ = 0, handshakes_refused_ = 0;
  std::thread thread_;
};

}  // namespace laggard::ingest
