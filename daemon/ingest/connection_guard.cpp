#include "daemon/ingest/connection_guard.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "daemon/base/error.h"

namespace laggard::ingest {
namespace {

constexpr const char* kEventsEndpoint = "inproc://connections";
constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_MONITOR_STOPPED | kHandshakeFailed;

}  // namespace

ConnectionGuard::ConnectionGuard(zmq::context_t& context, zmq::socket_t& socket, std::size_t most)
    : socket_(socket), events_(context, zmq::socket_type::pair), most_(most) {
  if (zmq_socket_monitor(socket.handle(), kEventsEndpoint, kEvents) != 0)
    throw Error(std::string("cannot watch the agents' connections: ") + zmq_strerror(zmq_errno()));
  events_.connect(kEventsEndpoint);
  thread_ = std::thread([this] { run(); });
}

ConnectionGuard::~ConnectionGuard() {
  zmq_socket_monitor(socket_.handle(), nullptr, 0);  // the thread is told with a last event
  thread_.join();
}

ConnectionCounts ConnectionGuard::counts() const {
  return {.connections = connections_,
          .connections_refused = refused_,
          .connections_unaccepted = unaccepted_,
          .handshakes_refused = handshakes_refused_};
}

void ConnectionGuard::run() {
  for (;;) {
    zmq::message_t head, address;
    // Read without a pause: while the events pile up libzmq's own thread waits.
    if (!events_.recv(head) || !events_.recv(address)) continue;
    std::uint16_t event = 0;
    std::int32_t value = 0;
    if (head.size() != sizeof event + sizeof value) continue;
    std::memcpy(&event, head.data(), sizeof event);
    std::memcpy(&value, head.data<char>() + sizeof event, sizeof value);
    if (event == ZMQ_EVENT_MONITOR_STOPPED) return;
    take(event, value);
  }
}

void ConnectionGuard::take(std::uint16_t event, int descriptor) {
  if (event == ZMQ_EVENT_ACCEPTED) accepted(descriptor);
  if (event == ZMQ_EVENT_ACCEPT_FAILED) ++unaccepted_;
  if (event == ZMQ_EVENT_DISCONNECTED) open_.erase(descriptor);
  if ((event & kHandshakeFailed) != 0) ++handshakes_refused_;
  connections_ = open_.size();
}

void ConnectionGuard::accepted(int descriptor) {
  open_.insert(descriptor);
  if (open_.size() <= most_) return;
  // libzmq reads the end of the stream and closes it. When the peer was faster, the number may be another
  // connection's by now: at worst an agent connects again.
  ++refused_;
  if (is_ours(descriptor)) shutdown(descriptor, SHUT_RDWR);
}

bool ConnectionGuard::is_ours(int descriptor) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port) == port_;
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port) == port_;
  return address.ss_family == AF_UNIX && port_ == 0;
}

}  // namespace laggard::ingest
