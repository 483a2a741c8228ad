#include "daemon/ingest/gate.h"

#include <spdlog/spdlog.h>

#include <array>
#include <utility>
#include <vector>

#include "daemon/keys/key.h"
#include "daemon/keys/limits.h"

namespace laggard::ingest {
namespace {

constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";  // where libzmq looks for a handler
// A question: routing id, empty, version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kQuestionFrames = 9;
constexpr std::size_t kPublicKeyBytes = 32;

std::vector<zmq::message_t> receive(zmq::socket_t& socket) {
  std::vector<zmq::message_t> frames;
  do {
    zmq::message_t frame;
    if (!socket.recv(frame, zmq::recv_flags::dontwait)) return {};
    frames.push_back(std::move(frame));
  } while (frames.back().more());
  return frames;
}

}  // namespace

Gate::Gate(zmq::context_t& context, std::string allow_list_file)
    : socket_(context, zmq::socket_type::router), allowed_(std::move(allow_list_file)) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(kZapEndpoint);
  spdlog::info("agents need a key; {} are allowed", allowed_.list()->keys().size());
}

bool Gate::look() {
  if (!allowed_.look()) return std::exchange(changed_, false);
  changed_ = false;
  logged_.clear();
  if (allowed_.problem().empty())
    spdlog::info("the allow-list has changed; {} keys are allowed", allowed_.list()->keys().size());
  else
    spdlog::error("{}; until it can be read no agent is let in", allowed_.problem());
  return true;
}

void Gate::answer() {
  for (auto frames = receive(socket_); !frames.empty(); frames = receive(socket_)) {
    if (frames.size() != kQuestionFrames) continue;  // nobody but libzmq can ask here
    if (look()) changed_ = true;
    std::string key;
    const bool allowed =
        is_allowed(frames[7].to_string_view(), frames[8].to_string_view(), frames[5].to_string_view(), key);
    socket_.send(frames[0], zmq::send_flags::sndmore);
    socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
    socket_.send(zmq::str_buffer("1.0"), zmq::send_flags::sndmore);
    socket_.send(frames[3], zmq::send_flags::sndmore);
    const std::array<std::string, 3> verdict{allowed ? "200" : "400", allowed ? "OK" : "key not allowed",
                                             key};
    for (const std::string& part : verdict) socket_.send(zmq::buffer(part), zmq::send_flags::sndmore);
    socket_.send(zmq::message_t(), zmq::send_flags::none);
  }
}

bool Gate::is_allowed(std::string_view mechanism, std::string_view credentials, std::string_view address,
                      std::string& key) {
  if (mechanism != "CURVE" || credentials.size() != kPublicKeyBytes) return false;
  key = keys::key_of_bytes(credentials);
  if (allowed_.list()->find(key) != nullptr) return true;
  // Once a key: who was refused comes again every few seconds. Keys are made at no cost: not for ever.
  if (logged_.size() < limits::kMaxRefusedKeysLogged && logged_.insert(key).second)
    spdlog::warn("refused an agent at {}: its key {} is not on the allow-list", address, key);
  return false;
}

}  // namespace laggard::ingest
