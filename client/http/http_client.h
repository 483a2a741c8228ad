// One request over HTTP/1.1, with time limits.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "client/http/url.h"

namespace laggard::client {

struct HttpRequest {
  std::string method = "GET";
  std::string target;  ///< path and query, encoded
  std::string body;    ///< JSON; "" for none
};

struct HttpAnswer {
  unsigned status = 0;
  std::string body;  ///< empty when a sink has taken it
};

/// How long a server may take for its first byte and between two pieces of an answer. The collector gives up
/// a report before that (limits::kReportMs) and says why.
inline constexpr std::chrono::seconds kAnswerTimeout{60};
inline constexpr std::chrono::seconds kConnectTimeout{5};

using Sink = std::function<void(std::string_view)>;

/// Sends the request on a connection of its own. With a sink, the body of a 200 goes there piece by piece as
/// it arrives. Throws NoAnswer (unreachable) when there is no connection or it ends inside the answer.
HttpAnswer send_request(const Endpoint& endpoint, const HttpRequest& request, const Sink& sink = nullptr,
                        std::chrono::seconds timeout = kAnswerTimeout);

}  // namespace laggard::client
