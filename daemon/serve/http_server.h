// The HTTP side of the collector.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/limits.h"
#include "daemon/serve/access.h"
#include "daemon/serve/counters.h"
#include "daemon/serve/history.h"
#include "daemon/serve/query_service.h"

namespace laggard::serve {

struct HttpOptions {
  std::string listen = "127.0.0.1:17601";  ///< host:port or [address]:port; port 0 takes a free one
  std::string token;                       ///< see Access
  std::string token_file;
  std::string tls_certificate_file;  ///< "" for HTTP without TLS
  std::string tls_key_file;
  unsigned workers = 2;                                   ///< threads for answers from storage
  std::size_t connections = limits::kMaxHttpConnections;  ///< open at once; half of them may read events
  std::chrono::milliseconds read_timeout{limits::kHttpReadMs};
  std::chrono::milliseconds idle_timeout{limits::kHttpIdleMs};
  std::chrono::milliseconds write_timeout{limits::kHttpWriteMs};
  std::chrono::milliseconds comment_every{15'000};  ///< on an event stream without events
};

/// Answers on a thread of its own and, what comes from storage, on a few workers with a History each, so
/// that a slow report delays neither live answers nor /metrics.
class HttpServer {
 public:
  using HistoryFactory = std::function<std::unique_ptr<History>()>;

  /// `service` must outlive the server. `open_history` is called by workers, once for each. Throws Error when
  /// the address or the files of TLS cannot be used.
  HttpServer(HttpOptions options, QueryService& service, HistoryFactory open_history);
  /// Stops.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Binds and begins to answer. Throws Error when it cannot listen.
  void start();
  /// Where it listens, as host:port; after start().
  std::string address() const;
  /// Says that there is a new snapshot. Any thread may call it, until stop() returns.
  void notify();
  /// Stops accepting, ends streams, waits for queries in progress (they are cancelled and limited in time)
  /// and joins. For good; a second call does nothing.
  void stop();

  const Counters& counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace laggard::serve
