// Which files an agent was asked to follow: names, and patterns whose matches may appear later.
#pragma once

#include <string>
#include <vector>

namespace laggard::agent {

/// Absolute paths of what `asked` stands for now.
struct FoundFiles {
  std::vector<std::string> named;    ///< asked for by name, whether they exist or not
  std::vector<std::string> matched;  ///< what patterns match
};
FoundFiles find_files(const std::vector<std::string>& asked);

/// One sentence for each name without a file and each pattern without a match.
std::vector<std::string> missing_files(const std::vector<std::string>& asked);

/// The path that log rotation made this one of: without its last dot and digits; "" when it has none.
std::string base_of(const std::string& path);

}  // namespace laggard::agent
