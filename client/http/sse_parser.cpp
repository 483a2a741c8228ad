#include "client/http/sse_parser.h"

#include <utility>

namespace laggard::client {

std::vector<ServerEvent> SseParser::feed(std::string_view bytes) {
  std::vector<ServerEvent> out;
  for (const char c : bytes) {
    // CR, LF and CR LF each end a line.
    const bool second_half = c == '\n' && after_cr_;
    after_cr_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      take_line(line_, out);
      line_.clear();
    } else if (line_.size() < kMaxEventBytes) {
      line_ += c;
    } else {
      too_large_ = true;
    }
  }
  return out;
}

void SseParser::take_line(std::string_view line, std::vector<ServerEvent>& out) {
  if (line.empty()) {
    if (has_data_ && !too_large_) out.push_back({id_, name_.empty() ? "message" : name_, data_});
    name_.clear();
    data_.clear();
    has_data_ = too_large_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "id") {
    id_ = value;
  } else if (field == "event") {
    name_ = value;
  } else if (field == "data") {
    if (std::exchange(has_data_, true)) data_ += '\n';
    if (data_.size() + value.size() > kMaxEventBytes) too_large_ = true;
    if (!too_large_) data_ += value;
  }
}

}  // namespace laggard::client
