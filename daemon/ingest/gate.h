// Who may speak to the ROUTER: a handler of libzmq's questions about handshakes (ZAP, RFC 27).
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <zmq.hpp>

#include "daemon/keys/watched_allow_list.h"

namespace laggard::ingest {

/// Answers for every CURVE handshake of its context whether the key is on the allow-list. It has to be made
/// before any socket binds: a CURVE server that finds no handler lets every key in. For the ingest thread.
class Gate {
 public:
  /// Throws Error when the allow-list cannot be read.
  Gate(zmq::context_t& context, std::string allow_list_file);

  /// To be polled for reading.
  void* handle() { return socket_.handle(); }
  /// Answers every question that waits.
  void answer();
  /// Looks whether the allow-list's file has changed; true when the list is another one now.
  bool look();
  std::shared_ptr<const keys::AllowList> list() const { return allowed_.list(); }

 private:
  bool is_allowed(std::string_view mechanism, std::string_view credentials, std::string_view address,
                  std::string& key);

  zmq::socket_t socket_;
  keys::WatchedAllowList allowed_;
  bool changed_ = false;          // by a look that answer() had
  std::set<std::string> logged_;  // refused keys
};

}  // namespace laggard::ingest
