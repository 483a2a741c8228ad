// A TCP connection with TLS on it or without. Only for the sources that speak HTTP, the collector's and the
// client's: Asio stays in them.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>
#include <utility>

namespace laggard::net {

/// What Asio and Beast call an AsyncReadStream and an AsyncWriteStream. One type for both kinds of
/// connection: as a template parameter every operation above it would be compiled twice.
class Stream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  /// With TLS when there is a context, which must outlive the stream. It stays where it is.
  Stream(boost::beast::tcp_stream tcp, boost::asio::ssl::context* context) : tcp_(std::move(tcp)) {
    if (context != nullptr) tls_ = std::make_unique<Tls>(tcp_, *context);
  }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  executor_type get_executor() { return tcp_.get_executor(); }
  /// Time limits and the socket.
  boost::beast::tcp_stream& tcp() { return tcp_; }
  bool has_tls() const { return tls_ != nullptr; }
  /// With TLS only.
  SSL* tls_handle() const { return tls_->native_handle(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto&& handler, const Buffers& into) {
          if (has_tls())
            tls_->async_read_some(into, std::forward<decltype(handler)>(handler));
          else
            tcp_.async_read_some(into, std::forward<decltype(handler)>(handler));
        },
        token, buffers);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto&& handler, const Buffers& from) {
          if (has_tls())
            tls_->async_write_some(from, std::forward<decltype(handler)>(handler));
          else
            tcp_.async_write_some(from, std::forward<decltype(handler)>(handler));
        },
        token, buffers);
  }

  /// With TLS only.
  template <class Token>
  auto async_handshake(boost::asio::ssl::stream_base::handshake_type side, Token&& token) {
    return tls_->async_handshake(side, std::forward<Token>(token));
  }
  /// With TLS only: says that nothing more comes, so that the other side knows a whole answer from a torn
  /// one.
  template <class Token>
  auto async_shutdown(Token&& token) {
    return tls_->async_shutdown(std::forward<Token>(token));
  }

 private:
  using Tls = boost::asio::ssl::stream<boost::beast::tcp_stream&>;

  boost::beast::tcp_stream tcp_;
  std::unique_ptr<Tls> tls_;  // refers to tcp_
};

}  // namespace laggard::net
