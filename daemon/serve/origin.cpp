#include "daemon/serve/origin.h"

#include <algorithm>
#include <cctype>

#include "daemon/serve/query_error.h"

namespace laggard::serve {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// "host", "host:port" or "[address]:port" without the port.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback(std::string_view host) {
  const std::string name = lower(without_port(host));
  if (name == "localhost" || name == "[::1]") return true;
  const bool digits = name.find_first_not_of("0123456789.") == std::string::npos;
  return digits && name.starts_with("127.");
}

}  // namespace

void check_origin(const Claims& claims, const Access& access) {
  if (access.loopback_only && !claims.host.empty() && !is_loopback(claims.host))
    throw QueryError(403, "foreign_host",
                     "this collector answers requests for a loopback name only, not for \"" +
                         std::string(claims.host) + "\"; use 127.0.0.1 or localhost");
  const bool reads = claims.method == "GET" || claims.method == "HEAD";
  if (reads || claims.origin.empty()) return;
  if (lower(claims.origin) != (access.tls ? "https://" : "http://") + lower(claims.host))
    throw QueryError(403, "foreign_origin", "a web page of another site may not change anything here");
}

}  // namespace laggard::serve
