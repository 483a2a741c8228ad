#include "agent/collector_link.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <vector>
#include <zmq.hpp>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

constexpr int kHighWaterMark = 64;  // messages; the window of a source bounds what waits in bytes
constexpr int kReconnectMs = 100;
constexpr int kReconnectMaxMs = 2000;
constexpr int kHeartbeatMs = 2000;
constexpr int kHeartbeatTimeoutMs = 6000;
constexpr const char* kMonitorEndpoint = "inproc://collector-link";

}  // namespace

struct CollectorLink::Impl {
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  zmq::socket_t monitor{context, zmq::socket_type::pair};
  bool connected = false;
  std::optional<std::string> held;
};

CollectorLink::CollectorLink(const std::string& endpoint) : impl_(std::make_unique<Impl>()) {
  zmq::socket_t& socket = impl_->socket;
  socket.set(zmq::sockopt::linger, 0);  // what matters is acknowledged; nothing else is worth waiting for
  socket.set(zmq::sockopt::immediate, true);  // nothing is queued for a collector that is not there
  socket.set(zmq::sockopt::sndhwm, kHighWaterMark);
  socket.set(zmq::sockopt::rcvhwm, kHighWaterMark);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(limits::kMaxMessageBytes));
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
  socket.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMs);
  socket.set(zmq::sockopt::heartbeat_timeout, kHeartbeatTimeoutMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  if (zmq_socket_monitor(socket.handle(), kMonitorEndpoint,
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0)
    throw Error(std::string("cannot watch the connection: ") + zmq_strerror(zmq_errno()));
  impl_->monitor.connect(kMonitorEndpoint);
  try {
    socket.connect(endpoint);
  } catch (const zmq::error_t& error) {
    throw Error("collector address " + endpoint + ": " + error.what() + "; it is like tcp://127.0.0.1:17600");
  }
}

CollectorLink::~CollectorLink() { zmq_socket_monitor(impl_->socket.handle(), nullptr, 0); }

std::optional<CollectorLink::Event> CollectorLink::next_event() {
  zmq::message_t frame;
  if (!impl_->monitor.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
  std::uint16_t event = 0;
  std::memcpy(&event, frame.data(), std::min(frame.size(), sizeof event));
  while (frame.more()) (void)impl_->monitor.recv(frame);  // the address, which says nothing new
  impl_->connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  if (!impl_->connected) impl_->held.reset();
  return impl_->connected ? Event::connected : Event::disconnected;
}

bool CollectorLink::is_connected() const { return impl_->connected; }

bool CollectorLink::is_ready() {
  if (!impl_->connected) return false;
  if (!impl_->held.has_value()) return true;
  const std::string message = std::move(*impl_->held);
  impl_->held.reset();
  send(message);
  return !impl_->held.has_value();
}

void CollectorLink::send(std::string message) {
  if (!impl_->socket.send(zmq::buffer(message), zmq::send_flags::dontwait)) impl_->held = std::move(message);
}

std::optional<std::string> CollectorLink::receive() {
  zmq::message_t frame;
  if (!impl_->socket.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
  std::string message = frame.to_string();
  while (frame.more()) (void)impl_->socket.recv(frame);  // one message is one frame; more is nothing we know
  return message;
}

void CollectorLink::wait(std::span<const int> fds, std::chrono::milliseconds timeout) {
  const auto events = static_cast<short>(impl_->held.has_value() ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN);
  std::vector<zmq::pollitem_t> items{{impl_->socket.handle(), 0, events, 0},
                                     {impl_->monitor.handle(), 0, ZMQ_POLLIN, 0}};
  for (const int fd : fds)
    if (fd >= 0) items.push_back({nullptr, fd, ZMQ_POLLIN, 0});
  try {
    zmq::poll(items, timeout);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

void CollectorLink::set_linger(std::chrono::milliseconds linger) {
  impl_->socket.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
}

}  // namespace laggard::agent
