// A connection to the collector. Only for the sources of this folder: Asio and Beast stay in them.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "client/http/http_client.h"
#include "daemon/net/stream.h"

namespace laggard::client {

/// The answer is read piece by piece into one buffer. Every step throws NoAnswer (unreachable).
class Connection {
 public:
  explicit Connection(const Endpoint& endpoint);

  /// Sends the request and reads the head of the answer.
  void exchange(const HttpRequest& request, std::chrono::seconds timeout);
  unsigned status() const { return parser_.get().result_int(); }
  bool body_done() const { return parser_.is_done(); }
  /// The next piece of the body; empty at its end.
  std::string_view read_piece(std::chrono::seconds timeout);

  /// Starts reading the next piece without a time limit; `done` is called from io().
  template <class Done>
  void start_piece(Done done) {
    stream_.tcp().expires_never();
    prepare_piece();
    boost::beast::http::async_read_some(stream_, buffer_, parser_, std::move(done));
  }
  /// What a finished start_piece() has read.
  std::string_view piece() const { return {piece_.data(), piece_.size() - parser_.get().body().size}; }
  boost::asio::io_context& io() { return io_; }

 private:
  void shake_hands();
  void prepare_piece();
  template <class Start>
  void wait_for(Start start, std::chrono::seconds timeout);
  [[noreturn]] void lost(const std::string& why) const;
  [[noreturn]] void not_trusted(const boost::system::error_code& error) const;
  [[noreturn]] void too_slow(std::chrono::seconds timeout) const;

  Endpoint endpoint_;
  bool connected_ = false;
  boost::asio::io_context io_;
  std::optional<boost::asio::ssl::context> tls_;
  net::Stream stream_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::response_parser<boost::beast::http::buffer_body> parser_;
  std::array<char, 65536> piece_{};
};

/// The answer whose head was read. A sink gets the body of a 200 piece by piece; any other body is kept, and
/// throws Failure when it is too large for that.
HttpAnswer rest_of_answer(Connection& connection, std::chrono::seconds timeout, const Sink& sink = nullptr);

}  // namespace laggard::client
