#include "client/http/url.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "client/failure.h"

namespace laggard::client {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Failure(ExitCode::usage,
                "'" + text + "' is no address of a collector: it looks like http://127.0.0.1:17601");
}

bool is_port(const std::string& port) {
  return !port.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) &&
         std::stoi(port) <= 65535;
}

}  // namespace

Endpoint parse_endpoint(const std::string& text) {
  constexpr std::string_view kPlain = "http://", kTls = "https://";
  std::string rest = text;
  const bool tls = rest.starts_with(kTls);
  if (tls || rest.starts_with(kPlain)) rest.erase(0, tls ? kTls.size() : kPlain.size());
  if (rest.ends_with('/')) rest.pop_back();
  if (rest.empty() || rest.find_first_of("/?#@ ") != std::string::npos) refuse(text);
  Endpoint endpoint{.host = rest, .port = "17601", .text = text, .tls = tls};
  if (rest.front() == '[') {
    const std::size_t end = rest.find(']');
    if (end == std::string::npos) refuse(text);
    endpoint.host = rest.substr(1, end - 1);
    rest.erase(0, end + 1);
    if (!rest.empty() && rest.front() != ':') refuse(text);
  } else {
    endpoint.host = rest.substr(0, rest.find(':'));
    rest.erase(0, endpoint.host.size());
  }
  if (!rest.empty()) endpoint.port = rest.substr(1);
  if (endpoint.host.empty() || !is_port(endpoint.port)) refuse(text);
  return endpoint;
}

std::string host_field(const Endpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + endpoint.port;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 &&
        (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos)) {
      out += c;
    } else {
      char buffer[4];
      std::snprintf(buffer, sizeof buffer, "%%%02X", byte);
      out += buffer;
    }
  }
  return out;
}

}  // namespace laggard::client
