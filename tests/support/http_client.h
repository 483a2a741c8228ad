// A small blocking HTTP client that can also misbehave.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace laggard::test {

struct HttpResponse {
  unsigned status = 0;
  std::map<std::string, std::string> fields;  ///< names in lower case
  std::string body;
};

/// One connection. Throws std::runtime_error when the other side closes or says nothing for 20 s.
class HttpClient {
 public:
  /// `address` is host:port with an IPv4 host. A small receive buffer makes a slow reader.
  explicit HttpClient(const std::string& address, int receive_buffer_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpResponse get(const std::string& target) { return request("GET", target); }
  HttpResponse request(const std::string& method, const std::string& target, const std::string& body = "",
                       const std::string& more_fields = "");

  /// Sends the bytes as they are; false when the other side does not take them any more.
  bool send(std::string_view bytes);
  /// Reads one response; `head_only` for the answer to a HEAD request.
  HttpResponse read_response(bool head_only = false);
  /// Reads a response up to the end of its header.
  HttpResponse read_header();
  /// Reads one chunk of a chunked body; "" for the last one.
  std::string read_chunk();
  /// Reads a response up to the end of its first chunk.
  std::string read_chunk_after_header();
  /// Reads chunks until their text contains `wanted`, and returns all of it.
  std::string read_chunks_until(std::string_view wanted);
  /// True when the other side has closed and nothing is left to be read.
  bool is_closed();

 private:
  bool fill();
  std::string take_line();
  std::string take(std::size_t n);

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace laggard::test
