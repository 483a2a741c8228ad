// The target of an HTTP request.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::serve {

struct Url {
  std::vector<std::string> path;             ///< decoded segments; a segment may contain a slash
  std::map<std::string, std::string> query;  ///< decoded; of a name given twice the last counts
};

/// Splits and decodes "/a/b%20c?x=1"; nothing when it is no absolute path or an escape is broken.
std::optional<Url> parse_url(std::string_view target);

}  // namespace laggard::serve
