#include "daemon/ingest/server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <zmq.hpp>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/ingest/gate.h"

namespace laggard::ingest {
namespace {

constexpr int kPeerQueueMessages = 1000;  // to be read, of one peer
constexpr int kPeerQueueReplies = 8192;   // to be sent to one peer
constexpr std::int64_t kLateAckMs = 50;   // acks that a full queue did not take are tried again
constexpr int kHandshakeMs = 10'000;      // from a connection's first byte to its first message
constexpr int kLingerMs = 1000;           // for the last acks
constexpr int kTurnMessages = 256;        // read before replies get their turn
constexpr std::chrono::milliseconds kPollTimeout{1000};
constexpr std::int64_t kLookAtKeysMs = 500;
constexpr const char* kZapDomain = "laggard";
constexpr const char* kUserId = "User-Id";  // of a message: what the gate said of its connection

// Of "tcp://host:port"; 0 for any other endpoint.
std::uint16_t port_of(const std::string& endpoint) {
  if (!endpoint.starts_with("tcp://")) return 0;
  return static_cast<std::uint16_t>(std::strtoul(endpoint.c_str() + endpoint.rfind(':') + 1, nullptr, 10));
}

}  // namespace

class Server::Loop {
 public:
  Loop(const std::string& address, std::string collector_id, Queue& to_engine,
       std::function<core::UnixMs()> now, std::size_t connections, const std::optional<Security>& security)
      : to_engine_(to_engine), now_(std::move(now)), sessions_(std::move(collector_id)) {
    if (security.has_value()) secure(*security);
    wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_ < 0) throw Error("cannot make an eventfd: out of file descriptors?");
    socket_.set(zmq::sockopt::linger, kLingerMs);
    socket_.set(zmq::sockopt::rcvhwm, kPeerQueueMessages);
    socket_.set(zmq::sockopt::sndhwm, kPeerQueueReplies);
    socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(limits::kMaxFrameBytes));
    socket_.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::heartbeat_ivl, 5000);
    socket_.set(zmq::sockopt::heartbeat_timeout, 15000);
    guard_.emplace(context_, socket_, connections);
    try {
      socket_.bind(address);
    } catch (const zmq::error_t& error) {
      close(wake_);
      throw Error("cannot listen for agents on " + address + ": " + error.what() +
                  " (is another laggardd there? choose a port with --ingest, 0 for any)");
    }
    guard_->listens_on(port_of(endpoint()));
  }
  ~Loop() {
    stop();
    guard_.reset();  // while the socket is there
    close(wake_);
  }

  std::string endpoint() { return socket_.get(zmq::sockopt::last_endpoint); }
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  void stop_reading() {
    if (!thread_.joinable()) return;
    reading_ = false;
    wake();
    stopped_reading_.get_future().wait();
  }
  void stop() {
    stopping_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
  }
  void reply(std::vector<Reply> replies) {
    {
      const std::scoped_lock lock(mutex_);
      for (Reply& reply : replies) replies_.push_back(std::move(reply));
    }
    wake();
  }
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }
  Counts counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }
  ConnectionCounts connection_counts() const { return guard_->counts(); }

 private:
  void run() {
    core::UnixMs last_sweep = now_(), listening_since = last_sweep;
    while (!stopping_) {
      if (!reading_) confirm_stopped_reading();
      const bool may_read = reading_ && !held_.has_value();
      const bool readable = wait_for_work(may_read);
      look_at_keys();
      send_replies();
      retry_held();
      if (readable) read_some();
      if (!may_read) listening_since = now_();
      if (const core::UnixMs now = now_(); now - last_sweep > 5000) {
        sessions_.drop_silent(now, listening_since);
        last_sweep = now;
      }
      publish_counts();
    }
    if (!reading_) confirm_stopped_reading();
    send_replies();
    publish_counts();
  }

  void secure(const Security& security) {
    // The gate first: a handshake that found no gate would be let through.
    gate_.emplace(context_, security.allow_list_file);
    sessions_.allow_only(gate_->list(), out_);
    socket_.set(zmq::sockopt::zap_domain, kZapDomain);
    socket_.set(zmq::sockopt::curve_server, true);
    socket_.set(zmq::sockopt::curve_secretkey, security.secret_key);
  }

  // Handshakes are answered even while nothing is read. True when the ROUTER may be read and has something.
  bool wait_for_work(bool may_read) {
    std::array<zmq::pollitem_t, 3> items{
        {{nullptr, wake_, ZMQ_POLLIN, 0},
         {socket_.handle(), 0, static_cast<short>(may_read ? ZMQ_POLLIN : 0), 0},
         {gate_ ? gate_->handle() : nullptr, wake_, ZMQ_POLLIN, 0}}};
    zmq::poll(items.data(), gate_ ? 3 : 2,
              late_acks_.empty() ? kPollTimeout : std::chrono::milliseconds(kLateAckMs));
    if ((items[0].revents & ZMQ_POLLIN) != 0) drain_wake();
    if (gate_ && (items[2].revents & ZMQ_POLLIN) != 0) gate_->answer();
    return (items[1].revents & ZMQ_POLLIN) != 0;
  }

  void look_at_keys() {
    const core::UnixMs now = now_();
    if (!gate_ || now - last_look_ < kLookAtKeysMs) return;
    last_look_ = now;
    if (!gate_->look()) return;
    sessions_.allow_only(gate_->list(), out_);
    send_all();
  }

  void confirm_stopped_reading() {
    if (std::exchange(confirmed_, true)) return;
    // What is held back was never acknowledged: its agent sends it again.
    held_.reset();
    stopped_reading_.set_value();
  }

  void drain_wake() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &count, sizeof count);
  }

  void read_some() {
    for (int i = 0; i < kTurnMessages && !held_.has_value(); ++i) {
      zmq::message_t peer, body;
      if (!socket_.recv(peer, zmq::recv_flags::dontwait)) return;
      std::size_t frames = 0;
      while (socket_.get(zmq::sockopt::rcvmore) && socket_.recv(body, zmq::recv_flags::dontwait)) ++frames;
      if (frames > 1) {  // one body frame is ours
        sessions_.count_malformed();
        continue;
      }
      const char* key = zmq_msg_gets(body.handle(), kUserId);
      std::optional<Message> message = sessions_.receive(peer.to_string_view(), body.to_string_view(), now_(),
                                                         out_, key == nullptr ? std::string_view() : key);
      send_all();
      if (message.has_value() && !to_engine_.push(*message)) held_ = std::move(message);
    }
  }

  void send_all() {
    for (Outgoing& out : std::exchange(out_, {}))
      if (!send(out)) sessions_.count_unsent();
  }

  void retry_held() {
    if (held_.has_value() && to_engine_.push(*held_)) held_.reset();
  }

  void send_replies() {
    std::vector<Reply> replies;
    {
      const std::scoped_lock lock(mutex_);
      replies.swap(replies_);
    }
    for (const Reply& reply : replies) say(reply);
    if (late_acks_.empty() || now_() - last_late_acks_ < kLateAckMs) return;
    last_late_acks_ = now_();
    std::vector<AckReply> late;
    for (const auto& [source, ack] : late_acks_) late.push_back(ack);
    std::set<std::string> full;  // a peer with thousands of sources is asked once
    for (const AckReply& ack : late) {
      if (const std::string* peer = sessions_.peer_of(ack.source); peer != nullptr && full.contains(*peer))
        continue;
      const auto out = sessions_.answer(ack);
      if (!out.has_value() || send(*out))
        late_acks_.erase(ack.source);
      else
        full.insert(out->peer);
    }
  }

  // An ack is said once, and one connection may carry the acks of thousands of sources.
  void say(const Reply& reply) {
    const auto* ack = std::get_if<AckReply>(&reply);
    if (ack != nullptr) late_acks_.erase(ack->source);  // this one says more
    const std::optional<Outgoing> out = sessions_.answer(reply);
    if (!out.has_value() || send(*out)) return;
    sessions_.count_unsent();
    if (ack != nullptr) late_acks_.emplace(ack->source, *ack);
  }

  // False when the peer's queue is full.
  bool send(const Outgoing& out) {
    try {
      if (!socket_.send(zmq::buffer(out.peer), zmq::send_flags::sndmore | zmq::send_flags::dontwait)) {
        return false;
      }
      socket_.send(zmq::buffer(out.bytes), zmq::send_flags::dontwait);
    } catch (const zmq::error_t&) {  // EHOSTUNREACH: the connection is gone
      sessions_.count_unsent();
      sessions_.drop_peer(out.peer);
    }
    return true;
  }

  void publish_counts() {
    const std::scoped_lock lock(mutex_);
    counts_ = sessions_.counts();
  }

  zmq::context_t context_{1};
  std::optional<Gate> gate_;
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::optional<ConnectionGuard> guard_;
  Queue& to_engine_;
  std::function<core::UnixMs()> now_;
  Sessions sessions_;
  std::vector<Outgoing> out_;
  std::optional<Message> held_;  // read, but the queue was full
  std::unordered_map<core::SourceKey, AckReply>
      late_acks_;  // not taken by their peer's queue, the newest of each
  core::UnixMs last_late_acks_ = 0;
  core::UnixMs last_look_ = 0;
  int wake_ = -1;
  std::atomic<bool> reading_ = true, stopping_ = false;
  bool confirmed_ = false;
  std::promise<void> stopped_reading_;
  mutable std::mutex mutex_;
  std::vector<Reply> replies_;  // guarded by mutex_
  Counts counts_;               // guarded by mutex_
  std::thread thread_;
};

Server::Server(const std::string& address, std::string collector_id, Queue& to_engine,
               std::function<core::UnixMs()> now, std::size_t connections,
               const std::optional<Security>& security)
    : loop_(std::make_unique<Loop>(address, std::move(collector_id), to_engine, std::move(now), connections,
                                   security)) {
  address_ = loop_->endpoint();
}
Server::~Server() = default;
void Server::start() { loop_->start(); }
void Server::stop_reading() { loop_->stop_reading(); }
void Server::stop() { loop_->stop(); }
void Server::reply(std::vector<Reply> replies) { loop_->reply(std::move(replies)); }
void Server::queue_drained() { loop_->wake(); }
Counts Server::counts() const { return loop_->counts(); }
ConnectionCounts Server::connection_counts() const { return loop_->connection_counts(); }

}  // namespace laggard::ingest
