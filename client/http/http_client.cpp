#include "client/http/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "client/failure.h"
#include "client/http/connection.h"
#include "daemon/base/limits.h"

namespace laggard::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

// An answer that is kept in memory is never larger; the largest, a step of 10,000 ranks, has about 30 MB.
constexpr std::size_t kMaxAnswerBytes = std::size_t{256} << 20;

static_assert(std::chrono::milliseconds(limits::kReportMs) + std::chrono::seconds(10) < kAnswerTimeout);

/// Trusts those that the endpoint names.
std::optional<asio::ssl::context> client_tls(const Endpoint& endpoint) {
  if (!endpoint.tls) return std::nullopt;
  std::optional<asio::ssl::context> tls(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  tls->set_verify_mode(asio::ssl::verify_peer);
  error_code error;
  if (endpoint.ca_file.empty())
    tls->set_default_verify_paths(error);
  else
    tls->load_verify_file(endpoint.ca_file, error);
  if (error)
    throw Failure(ExitCode::failed, "no certificates to trust can be read from " +
                                        (endpoint.ca_file.empty() ? "the system's store" : endpoint.ca_file) +
                                        ": " + error.message());
  return tls;
}

/// Has the handshake ask for a certificate of this host, an address or a name.
bool ask_for(SSL* tls, std::string host) {
  error_code no_address;
  asio::ip::make_address(host, no_address);
  if (!no_address) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host.c_str()) == 1;
  SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  // What SSL_set_tlsext_host_name() does, which is a macro with a cast of C's.
  return SSL_set1_host(tls, host.c_str()) == 1 &&
         SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host.data()) == 1;
}

bool is_end_of_piece(const error_code& error) { return error == http::error::need_buffer; }

// Something was answered that does not begin as HTTP does.
bool is_no_http(const error_code& error) { return error == http::error::bad_version; }

}  // namespace

template <class Start>
void Connection::wait_for(Start start, std::chrono::seconds timeout) {
  error_code result;
  stream_.tcp().expires_after(timeout);
  start([&result](const error_code& error, auto&&...) { result = error; });
  io_.restart();
  io_.run();
  if (!result || is_end_of_piece(result)) return;
  if (result == beast::error::timeout) too_slow(timeout);
  if (result.category() == asio::error::get_ssl_category()) not_trusted(result);
  if (is_no_http(result))
    throw NoAnswer(ExitCode::unreachable,
                   "what answers at " + endpoint_.text +
                       " speaks no HTTP. laggardd takes records at one port (17600) and questions at another "
                       "(17601), which is the one for --collector or LAGGARD_COLLECTOR.");
  lost(result.message());
}

void Connection::lost(const std::string& why) const {
  throw NoAnswer(ExitCode::unreachable,
                 "cannot reach the collector at " + endpoint_.text + ": " + why +
                     ". Is laggardd running there? Name another one with --collector or "
                     "LAGGARD_COLLECTOR.");
}

void Connection::not_trusted(const error_code& error) const {
  const long verdict = SSL_get_verify_result(stream_.tls_handle());
  if (verdict == X509_V_OK)
    throw NoAnswer(ExitCode::unreachable, "no TLS with the collector at " + endpoint_.text + ": " +
                                              error.message() + ". Does it speak https:// there?");
  throw Failure(ExitCode::failed,
                "the collector at " + endpoint_.text +
                    " is not trusted: " + X509_verify_cert_error_string(verdict) +
                    ". --ca-file FILE (or LAGGARD_CA_FILE) names the certificate to trust; it must be for " +
                    endpoint_.host);
}

void Connection::too_slow(std::chrono::seconds timeout) const {
  const std::string time = std::to_string(timeout.count()) + " s";
  if (!connected_) lost("no answer in " + time);
  throw NoAnswer(ExitCode::unreachable, "the collector at " + endpoint_.text +
                                            " takes connections, but has " + "not answered in " + time +
                                            ": is it stopped or overloaded?");
}

Connection::Connection(const Endpoint& endpoint)
    : endpoint_(endpoint),
      tls_(client_tls(endpoint)),
      stream_(beast::tcp_stream(io_), tls_.has_value() ? &*tls_ : nullptr) {
  parser_.body_limit(boost::none);
  error_code error;
  asio::ip::tcp::resolver resolver(io_);
  auto found = resolver.resolve(endpoint.host, endpoint.port, error);
  // A container without /etc/hosts has this name all the same (RFC 6761, 6.3).
  if (error && endpoint.host == "localhost") found = resolver.resolve("127.0.0.1", endpoint.port, error);
  if (error) lost(error.message());
  wait_for([&](auto done) { stream_.tcp().async_connect(found, std::move(done)); }, kConnectTimeout);
  connected_ = true;
  if (stream_.has_tls()) shake_hands();
}

void Connection::shake_hands() {
  if (!ask_for(stream_.tls_handle(), endpoint_.host)) lost("TLS does not know such a host");
  wait_for([&](auto done) { stream_.async_handshake(asio::ssl::stream_base::client, std::move(done)); },
           kConnectTimeout);
}

void Connection::exchange(const HttpRequest& request, std::chrono::seconds timeout) {
  http::request<http::string_body> message;
  message.method_string(request.method);
  message.target(request.target);
  message.version(11);
  message.set(http::field::host, host_field(endpoint_));
  message.set(http::field::user_agent, "laggard");
  message.set(http::field::connection, "close");
  if (!endpoint_.token.empty()) message.set(http::field::authorization, "Bearer " + endpoint_.token);
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  message.body() = request.body;
  message.prepare_payload();
  wait_for([&](auto done) { http::async_write(stream_, message, std::move(done)); }, timeout);
  wait_for([&](auto done) { http::async_read_header(stream_, buffer_, parser_, std::move(done)); }, timeout);
}

void Connection::prepare_piece() {
  parser_.get().body().data = piece_.data();
  parser_.get().body().size = piece_.size();
}

std::string_view Connection::read_piece(std::chrono::seconds timeout) {
  while (!parser_.is_done()) {
    prepare_piece();
    wait_for([&](auto done) { http::async_read_some(stream_, buffer_, parser_, std::move(done)); }, timeout);
    if (!piece().empty()) return piece();
  }
  return {};
}

HttpAnswer rest_of_answer(Connection& connection, std::chrono::seconds timeout, const Sink& sink) {
  HttpAnswer answer{.status = connection.status(), .body = {}};
  const bool to_sink = sink && answer.status == 200;
  for (auto piece = connection.read_piece(timeout); !piece.empty(); piece = connection.read_piece(timeout)) {
    if (to_sink) {
      sink(piece);
    } else if (answer.body.append(piece).size() > kMaxAnswerBytes) {
      throw Failure(ExitCode::failed, "the collector's answer is larger than 256 MiB: ask for less");
    }
  }
  return answer;
}

HttpAnswer send_request(const Endpoint& endpoint, const HttpRequest& request, const Sink& sink,
                        std::chrono::seconds timeout) {
  Connection connection(endpoint);
  connection.exchange(request, timeout);
  return rest_of_answer(connection, timeout, sink);
}

}  // namespace laggard::client
