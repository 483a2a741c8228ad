#include "client/run_ref.h"

#include <charconv>

#include "client/http/url.h"

namespace laggard::client {

RunRef parse_run(const std::string& text) {
  const std::size_t mark = text.rfind('@');
  if (mark == std::string::npos || mark == 0) return {text, std::nullopt};
  std::uint32_t attempt = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + mark + 1, end, attempt);
  // A name may hold an '@' of its own.
  if (read.ec != std::errc{} || read.ptr != end || attempt == 0) return {text, std::nullopt};
  return {text.substr(0, mark), attempt};
}

std::string run_target(const RunRef& run, const std::string& below, const std::string& query) {
  std::string target = "/api/v1/runs/" + percent_encoded(run.name) + below;
  char mark = '?';
  if (run.attempt) {
    target += mark + ("attempt=" + std::to_string(*run.attempt));
    mark = '&';
  }
  if (!query.empty()) target += mark + query;
  return target;
}

}  // namespace laggard::client
