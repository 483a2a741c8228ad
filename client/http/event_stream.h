// The collector's live events.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/http/sse_parser.h"
#include "client/http/url.h"

namespace laggard::client {

/// One open event stream. Throws Failure: unreachable when it ends or nothing, not even the comment that
/// keeps it alive, has come for 45 s; no_such_data when the collector refuses it.
class EventStream {
 public:
  EventStream(const Endpoint& endpoint, const std::string& target);
  ~EventStream();

  /// Events as soon as there are any; empty when none came within `limit`.
  std::vector<ServerEvent> wait(std::chrono::milliseconds limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace laggard::client
