#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace laggard::test {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

HttpClient::HttpClient(const std::string& address, int receive_buffer_bytes) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (receive_buffer_bytes > 0)
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error("cannot connect to " + address);
}

HttpClient::~HttpClient() { ::close(socket_); }

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool HttpClient::fill() {
  char bytes[16384];
  const ssize_t n = ::recv(socket_, bytes, sizeof bytes, 0);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("no answer within 20 s");
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(n));
  return true;
}

std::string HttpClient::take(std::size_t n) {
  while (buffer_.size() < n)
    if (!fill()) throw std::runtime_error("the connection was closed after: " + buffer_);
  std::string taken = buffer_.substr(0, n);
  buffer_.erase(0, n);
  return taken;
}

std::string HttpClient::take_line() {
  std::size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos)
    if (!fill()) throw std::runtime_error("the connection was closed after: " + buffer_);
  std::string line = take(end);
  take(2);
  return line;
}

HttpResponse HttpClient::request(const std::string& method, const std::string& target,
                                 const std::string& body, const std::string& more_fields) {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more_fields;
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  if (!send(text + "\r\n" + body)) throw std::runtime_error("the request could not be sent");
  return read_response(method == "HEAD");
}

HttpResponse HttpClient::read_header() {
  HttpResponse response;
  response.status = static_cast<unsigned>(std::stoul(take_line().substr(9, 3)));
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const std::size_t colon = line.find(": ");
    response.fields[lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return response;
}

HttpResponse HttpClient::read_response(bool head_only) {
  HttpResponse response = read_header();
  if (head_only) return response;
  if (response.fields.contains("transfer-encoding")) {
    for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk()) response.body += chunk;
  } else if (response.fields.contains("content-length")) {
    response.body = take(std::stoul(response.fields["content-length"]));
  }
  return response;
}

std::string HttpClient::read_chunk() {
  const std::size_t size = std::stoul(take_line(), nullptr, 16);
  std::string chunk = take(size);
  take(2);
  return chunk;
}

std::string HttpClient::read_chunk_after_header() {
  read_header();
  return read_chunk();
}

std::string HttpClient::read_chunks_until(std::string_view wanted) {
  std::string text;
  while (text.find(wanted) == std::string::npos) {
    const std::string chunk = read_chunk();
    if (chunk.empty()) throw std::runtime_error("the stream ended after: " + text);
    text += chunk;
  }
  return text;
}

bool HttpClient::is_closed() { return buffer_.empty() && !fill(); }

}  // namespace laggard::test
