// The collector's live events.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/http/http_client.h"
#include "client/http/sse_parser.h"
#include "client/http/url.h"

namespace laggard::client {

/// One open event stream. Throws NoAnswer (unreachable) when it ends or nothing, not even the comment that
/// keeps it alive, has come for 45 s.
class EventStream {
 public:
  /// `refused` gets an answer that is not 200 and throws what is to be said of it.
  EventStream(const Endpoint& endpoint, const std::string& target,
              const std::function<void(const HttpAnswer&)>& refused);
  ~EventStream();

  /// Events as soon as there are any; empty when none came within `limit`.
  std::vector<ServerEvent> wait(std::chrono::milliseconds limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace laggard::client
