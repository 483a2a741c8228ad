#include "daemon/serve/http_server.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <utility>

#include "daemon/base/error.h"
#include "daemon/serve/http_session.h"
#include "daemon/serve/tls.h"

namespace laggard::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::beast::error_code;

/// After an accept that failed for want of something (file descriptors, memory).
constexpr std::chrono::milliseconds kAcceptPause{100};

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    "Content-Length: 68\r\n\r\n"
    "{\"error\":{\"code\":\"too_many\",\"message\":\"too many open connections\"}}\n";

tcp::endpoint resolve(asio::io_context& io, const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos)
    throw Error("the HTTP address \"" + listen + "\" has no port; write host:port");
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, listen.substr(colon + 1), tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error("the HTTP address \"" + listen + "\" cannot be resolved: " + error.message());
  return found.begin()->endpoint();
}

Access access_of(const HttpOptions& options, const tcp::endpoint& endpoint) {
  return {.loopback_only = endpoint.address().is_loopback(),
          .tls = !options.tls_certificate_file.empty(),
          .token = options.token,
          .token_file = options.token_file};
}

asio::awaitable<void> run_session(std::shared_ptr<HttpSession> session) { co_await session->run(); }

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, QueryService& service, HistoryFactory open_history)
      : options_(std::move(options)),
        service_(service),
        endpoint_(resolve(io_, options_.listen)),
        shared_(options_, service, std::move(open_history), access_of(options_, endpoint_)),
        acceptor_(io_),
        accept_pause_(io_) {
    if (!options_.tls_certificate_file.empty())
      shared_.tls = server_tls(options_.tls_certificate_file, options_.tls_key_file);
  }

  void start();
  void stop();
  void notify();
  std::string address() const;
  const Counters& counters() const { return shared_.counters; }

 private:
  asio::awaitable<void> accept();
  void refuse(tcp::socket socket);

  const HttpOptions options_;
  QueryService& service_;
  asio::io_context io_{1};
  const tcp::endpoint endpoint_;
  HttpShared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> keep_running_;
  std::atomic<bool> notified_ = false;  // a wake-up is on its way
  std::string address_;
  std::thread thread_;
};

void HttpServer::Impl::start() {
  error_code error;
  acceptor_.open(endpoint_.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint_, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    throw Error("cannot listen for HTTP on " + options_.listen + ": " + error.message() +
                "; is another collector running, or is the port taken? Choose another one with --http");
  const tcp::endpoint bound = acceptor_.local_endpoint();
  const std::string host = bound.address().to_string();
  address_ = (bound.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(bound.port());
  shared_.events.update(service_.collector().snapshot());
  keep_running_.emplace(io_.get_executor());
  asio::co_spawn(io_, accept(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

std::string HttpServer::Impl::address() const { return address_; }

asio::awaitable<void> HttpServer::Impl::accept() {
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor_.is_open()) co_return;
    if (error) {
      ++shared_.counters.connections_unaccepted;
      accept_pause_.expires_after(kAcceptPause);
      co_await accept_pause_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    } else if (shared_.sessions.size() >= options_.connections) {
      refuse(std::move(socket));
    } else {
      auto session = std::make_shared<HttpSession>(std::move(socket), shared_);
      asio::co_spawn(io_, run_session(std::move(session)), asio::detached);
    }
  }
}

void HttpServer::Impl::refuse(tcp::socket socket) {
  ++shared_.counters.connections_refused;
  shared_.counters.count_answer(503);
  error_code ignored;
  socket.non_blocking(true, ignored);
  // Whoever waits for a handshake cannot read a sentence.
  if (shared_.tls == nullptr) socket.write_some(asio::buffer(kTooMany), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpServer::Impl::notify() {
  if (notified_.exchange(true)) return;
  asio::post(io_, [this] {
    notified_ = false;
    shared_.events.update(service_.collector().snapshot());
    for (HttpSession* session : shared_.sessions) session->wake();
  });
}

void HttpServer::Impl::stop() {
  if (!thread_.joinable()) return;
  service_.cancel();
  asio::post(io_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    for (HttpSession* session : shared_.sessions) session->close();
  });
  // Sessions that wait for a worker end when it is done: run() returns after the last of them.
  keep_running_.reset();
  thread_.join();
  shared_.workers.join();
}

HttpServer::HttpServer(HttpOptions options, QueryService& service, HistoryFactory open_history)
    : impl_(std::make_unique<Impl>(std::move(options), service, std::move(open_history))) {}
HttpServer::~HttpServer() { stop(); }
void HttpServer::start() { impl_->start(); }
std::string HttpServer::address() const { return impl_->address(); }
void HttpServer::notify() { impl_->notify(); }
void HttpServer::stop() { impl_->stop(); }
const Counters& HttpServer::counters() const { return impl_->counters(); }

}  // namespace laggard::serve
