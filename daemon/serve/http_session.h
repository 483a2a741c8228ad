// One connection. Only the HTTP server's own files include this: Asio stays out of the others.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "daemon/net/stream.h"
#include "daemon/serve/api.h"
#include "daemon/serve/event_log.h"
#include "daemon/serve/export.h"
#include "daemon/serve/http_server.h"

namespace laggard::serve {

/// A History for each worker thread that needs one.
class Histories {
 public:
  explicit Histories(HttpServer::HistoryFactory open) : open_(std::move(open)) {}

  /// Calls `work` with a History that nobody else uses meanwhile.
  template <typename Work>
  auto with(Work&& work) {
    std::unique_ptr<History> history = take();
    const auto give_back = [this](History* used) { give(std::unique_ptr<History>(used)); };
    const std::unique_ptr<History, decltype(give_back)> lent(history.release(), give_back);
    return work(*lent);
  }

 private:
  std::unique_ptr<History> take();
  void give(std::unique_ptr<History> history);

  const HttpServer::HistoryFactory open_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<History>> idle_;  // guarded by mutex_
};

class HttpSession;

/// What all connections share; only the io thread touches `events` and `sessions`.
struct HttpShared {
  HttpShared(const HttpOptions& http_options, const QueryService& query_service,
             HttpServer::HistoryFactory open, Access access)
      : options(http_options),
        service(query_service),
        api(query_service, counters, std::move(access)),
        histories(std::move(open)),
        workers(http_options.workers) {}

  const HttpOptions& options;
  const QueryService& service;
  Counters counters;
  Api api;
  std::unique_ptr<boost::asio::ssl::context> tls;  // null for HTTP without it
  Histories histories;
  boost::asio::thread_pool workers;
  EventLog events;
  std::set<HttpSession*> sessions;
};

/// Reads requests of a connection one after the other and answers them.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, HttpShared& shared);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  /// Ends when the connection does; never throws.
  boost::asio::awaitable<void> run();
  /// There may be new events. Disconnects a client that still has not taken those the log has forgotten.
  void wake();
  void close();

 private:
  using Message = boost::beast::http::request<boost::beast::http::string_body>;

  boost::asio::awaitable<bool> shake_hands();
  boost::asio::awaitable<void> say_goodbye();
  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<std::optional<Message>> read_request();
  boost::asio::awaitable<void> refuse_broken(boost::beast::error_code error);
  boost::asio::awaitable<bool> send_answer(const Message& request, Answer answer);
  boost::asio::awaitable<bool> send_export(const Message& request, ExportAsked asked);
  boost::asio::awaitable<bool> send_events(const Message& request, EventsAsked asked);
  boost::asio::awaitable<bool> begin_stream(const Message& request, std::string content_type);
  boost::asio::awaitable<bool> send_piece(const Message& request, const std::string& text);
  boost::asio::awaitable<bool> end_stream(const Message& request);
  boost::asio::awaitable<void> wait_for_events(std::chrono::steady_clock::time_point until);
  boost::asio::awaitable<void> drain();
  void watch_for_hang_up();

  HttpShared& shared_;
  net::Stream stream_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer wake_timer_;
  bool fresh_ = true;  // no request has come yet
  bool sends_events_ = false;
  bool is_writing_ = false;     // a piece of the event stream is on its way
  bool hung_up_ = false;        // the reader of the event stream is gone
  std::uint64_t position_ = 0;  // in the event log
};

}  // namespace laggard::serve
