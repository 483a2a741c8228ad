// Server-sent events out of the bytes they come in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::client {

struct ServerEvent {
  std::string id;    ///< the newest one seen, also from events before
  std::string name;  ///< "message" when the event does not say
  std::string data;
};

class SseParser {
 public:
  /// The events that these bytes complete. Comments and events without data are nothing. An event that
  /// grows past kMaxEventBytes is given up.
  std::vector<ServerEvent> feed(std::string_view bytes);

  static constexpr std::size_t kMaxEventBytes = 1 << 20;

 private:
  void take_line(std::string_view line, std::vector<ServerEvent>& out);

  std::string line_;
  bool after_cr_ = false;
  std::string id_, name_, data_;
  bool has_data_ = false, too_large_ = false;
};

}  // namespace laggard::client
