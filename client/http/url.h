// Addresses of the collector.
#pragma once

#include <string>
#include <string_view>

namespace laggard::client {

struct Endpoint {
  std::string host;  ///< without the brackets of an IPv6 address
  std::string port;
  std::string text;  ///< as it was given, for sentences
  bool tls = false;
  std::string ca_file;  ///< whom to trust about its certificate; "" for those whom the system trusts
  std::string token;    ///< what it may ask for; "" for none
};

/// Reads "http://HOST:PORT" or "https://HOST:PORT" ("http://" and a last "/" may be missing, the port is
/// 17601 without one). Throws Failure (usage) for anything else.
Endpoint parse_endpoint(const std::string& text);

/// HOST:PORT as the Host field of a request has it.
std::string host_field(const Endpoint& endpoint);

/// The text as one part of a URL's path or query: all but letters, digits and -._~ as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace laggard::client
