#include "agent/asked_files.h"

#include <glob.h>

#include <filesystem>

namespace laggard::agent {
namespace {

// Also true of what cannot be told: opening it says why.
bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

// A name with a star in it that exists is a name.
bool is_pattern(const std::string& file) {
  return file.find_first_of("*?[") != std::string::npos && !exists(file);
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return out;
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

FoundFiles find_files(const std::vector<std::string>& asked) {
  FoundFiles found;
  for (const std::string& file : asked) {
    if (!is_pattern(file))
      found.named.push_back(absolute(file));
    else
      for (const std::string& match : matches(file)) found.matched.push_back(absolute(match));
  }
  return found;
}

std::vector<std::string> missing_files(const std::vector<std::string>& asked) {
  std::vector<std::string> sentences;
  for (const std::string& file : asked) {
    if (is_pattern(file)) {
      if (matches(file).empty()) sentences.push_back("no file matches " + file);
    } else if (!exists(file)) {
      sentences.push_back("there is no file " + file);
    }
  }
  return sentences;
}

std::string base_of(const std::string& path) {
  const std::size_t dot = path.find_last_of('.');
  const bool numbered = dot != std::string::npos && dot + 1 < path.size() &&
                        path.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return numbered ? path.substr(0, dot) : std::string();
}

}  // namespace laggard::agent
