#include "agent/collector_link.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHighWaterMark = 64;  // messages; the window of a source bounds what waits in bytes
constexpr int kReconnectMs = 100;
constexpr int kReconnectMaxMs = 2000;
constexpr int kHeartbeatMs = 2000;
constexpr int kHeartbeatTimeoutMs = 6000;
// After a refusal. libzmq itself would come back ten times a second after some of them, and never after
// others.
constexpr std::chrono::seconds kAskAgain{2};
// After the first time that the collector hung up, which may just have been stopped.
constexpr std::chrono::milliseconds kTryAgain{kReconnectMs};
constexpr int kWatchedEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                               ZMQ_EVENT_DISCONNECTED;

CollectorLink::Refusal refusal_of(std::uint16_t event, std::uint32_t detail) {
  using Refusal = CollectorLink::Refusal;
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return Refusal::key_not_allowed;
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
    return detail == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? Refusal::one_side_without_key
                                                                : Refusal::other_collector;
  return Refusal::hung_up;
}

}  // namespace

struct CollectorLink::Impl {
  // A socket with the one that tells what happens to it.
  struct Sockets {
    explicit Sockets(zmq::context_t& context)
        : dealer(context, zmq::socket_type::dealer), monitor(context, zmq::socket_type::pair) {}
    ~Sockets() { zmq_socket_monitor(dealer.handle(), nullptr, 0); }
    Sockets(const Sockets&) = delete;
    Sockets& operator=(const Sockets&) = delete;
    zmq::socket_t dealer, monitor;
  };

  Impl(std::string address, std::optional<keys::PeerKeys> with_keys)
      : endpoint(std::move(address)), peer_keys(std::move(with_keys)) {}
  void open();
  void close_until(Clock::time_point time);

  const std::string endpoint;
  const std::optional<keys::PeerKeys> peer_keys;
  zmq::context_t context{1};
  std::unique_ptr<Sockets> sockets;  // none for a while after a refusal
  int opened = 0;
  Clock::time_point open_at{};
  bool connected = false;
  Refusal refusal = Refusal::none;
  std::optional<std::string> held;
};

void CollectorLink::Impl::open() {
  sockets = std::make_unique<Sockets>(context);
  zmq::socket_t& socket = sockets->dealer;
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
  if (peer_keys.has_value()) {
    socket.set(zmq::sockopt::curve_serverkey, peer_keys->collector);
    socket.set(zmq::sockopt::curve_publickey, peer_keys->own.public_key);
    socket.set(zmq::sockopt::curve_secretkey, peer_keys->own.secret_key);
  }
  // A name of its own: libzmq gives up that of a closed socket some time later.
  const std::string events = "inproc://collector-link-" + std::to_string(++opened);
  if (zmq_socket_monitor(socket.handle(), events.c_str(), kWatchedEvents) != 0)
    throw Error(std::string("cannot watch the connection: ") + zmq_strerror(zmq_errno()));
  sockets->monitor.connect(events);
  try {
    socket.connect(endpoint);
  } catch (const zmq::error_t& error) {
    throw Error("collector address " + endpoint + ": " + error.what() + "; it is like tcp://127.0.0.1:17600");
  }
}

void CollectorLink::Impl::close_until(Clock::time_point time) {
  sockets.reset();
  held.reset();
  connected = false;
  open_at = time;
}

CollectorLink::CollectorLink(const std::string& endpoint, std::optional<keys::PeerKeys> keys)
    : impl_(std::make_unique<Impl>(endpoint, std::move(keys))) {
  impl_->open();
}

CollectorLink::~CollectorLink() = default;

std::optional<CollectorLink::Event> CollectorLink::next_event() {
  if (impl_->sockets == nullptr) {
    if (Clock::now() < impl_->open_at) return std::nullopt;
    impl_->open();
  }
  zmq::socket_t& monitor = impl_->sockets->monitor;
  zmq::message_t frame;
  if (!monitor.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
  std::uint16_t event = 0;
  std::uint32_t detail = 0;
  if (frame.size() >= sizeof event + sizeof detail) {
    std::memcpy(&event, frame.data(), sizeof event);
    std::memcpy(&detail, static_cast<const char*>(frame.data()) + sizeof event, sizeof detail);
  }
  while (frame.more()) (void)monitor.recv(frame);  // the address, which says nothing new
  if (event != ZMQ_EVENT_HANDSHAKE_SUCCEEDED && event != ZMQ_EVENT_DISCONNECTED) {
    const Refusal before = std::exchange(impl_->refusal, refusal_of(event, detail));
    const bool may_be_chance = impl_->refusal == Refusal::hung_up && before == Refusal::none;
    impl_->close_until(Clock::now() + (may_be_chance ? Clock::duration(kTryAgain) : kAskAgain));
    return Event::refused;
  }
  impl_->connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
  if (!impl_->connected) impl_->held.reset();
  if (impl_->connected) impl_->refusal = Refusal::none;
  return impl_->connected ? Event::connected : Event::disconnected;
}

bool CollectorLink::is_connected() const { return impl_->connected; }

CollectorLink::Refusal CollectorLink::refusal() const { return impl_->refusal; }

bool CollectorLink::is_ready() {
  if (!impl_->connected) return false;
  if (!impl_->held.has_value()) return true;
  const std::string message = std::move(*impl_->held);
  impl_->held.reset();
  send(message);
  return !impl_->held.has_value();
}

void CollectorLink::send(std::string message) {
  if (!impl_->sockets->dealer.send(zmq::buffer(message), zmq::send_flags::dontwait))
    impl_->held = std::move(message);
}

std::optional<std::string> CollectorLink::receive() {
  if (impl_->sockets == nullptr) return std::nullopt;
  zmq::socket_t& dealer = impl_->sockets->dealer;
  zmq::message_t frame;
  if (!dealer.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
  std::string message = frame.to_string();
  while (frame.more()) (void)dealer.recv(frame);  // one message is one frame; more is nothing we know
  return message;
}

void CollectorLink::wait(std::span<const int> fds, std::chrono::milliseconds timeout) {
  std::vector<zmq::pollitem_t> items;
  if (impl_->sockets != nullptr) {
    const auto events = static_cast<short>(impl_->held.has_value() ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN);
    items = {{impl_->sockets->dealer.handle(), 0, events, 0},
             {impl_->sockets->monitor.handle(), 0, ZMQ_POLLIN, 0}};
  } else {
    const auto pause = std::chrono::ceil<std::chrono::milliseconds>(impl_->open_at - Clock::now());
    timeout = std::clamp(pause, std::chrono::milliseconds(0), timeout);
  }
  for (const int fd : fds)
    if (fd >= 0) items.push_back({nullptr, fd, ZMQ_POLLIN, 0});
  try {
    zmq::poll(items, timeout);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

void CollectorLink::set_linger(std::chrono::milliseconds linger) {
  if (impl_->sockets != nullptr)
    impl_->sockets->dealer.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
}

}  // namespace laggard::agent
