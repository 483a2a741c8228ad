// Keeps web pages of other sites away from a collector that trusts everybody on its own machine.
#pragma once

#include <string>
#include <string_view>

#include "daemon/serve/access.h"

namespace laggard::serve {

struct Claims {
  std::string_view method;
  std::string_view host;    ///< the Host field, "" when absent
  std::string_view origin;  ///< the Origin field, "" when absent: no browser
};

/// Throws QueryError 403 for a POST from a web page of another origin, and on a loopback address for a Host
/// that is no loopback name: such a page had its own name resolved to this machine.
void check_origin(const Claims& claims, const Access& access);

}  // namespace laggard::serve
