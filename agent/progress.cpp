#include "agent/progress.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "agent/utf8.h"

namespace laggard::agent {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FilePlace, device, inode, offset, line_number, head_hash, tail_hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AttemptState, attempt, explicit_number, config_seen, updates_since_config)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankProgress, attempts, attempt_offset)

namespace {

using nlohmann::json;

// Writes and syncs, so that a rename after it never uncovers half a file.
bool write_file(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const ssize_t written = ::write(fd, text.data(), text.size());
  const bool synced = written == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  return ::close(fd) == 0 && synced;
}

}  // namespace

ProgressStore::ProgressStore(std::string directory, std::string collector, std::string run)
    : directory_(std::move(directory)), collector_(std::move(collector)), run_(std::move(run)) {}

std::string ProgressStore::default_directory() {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = environment("LAGGARD_STATE_DIR"); !own.empty()) return own;
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty())
    return state + "/laggard/agent";
  return environment("HOME") + "/.local/state/laggard/agent";
}

std::string ProgressStore::file_for(const std::string& path) const {
  const std::string key = collector_ + '\0' + run_ + '\0' + path;
  std::array<char, 17> name{};
  std::snprintf(name.data(), name.size(), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(key.data(), key.size())));
  return directory_ + "/" + name.data() + ".json";
}

std::optional<FileProgress> ProgressStore::load(const std::string& path) const {
  std::ifstream file(file_for(path));
  if (!file) return std::nullopt;
  try {
    const json stored = json::parse(file);
    if (stored.at("collector") != collector_ || stored.at("run") != run_ ||
        stored.at("path") != escape_to_utf8(path))
      return std::nullopt;
    FileProgress progress{
        .collector_id = stored.at("collector_id"), .place = stored.at("place"), .ranks = {}};
    for (const json& rank : stored.at("ranks"))
      progress.ranks.emplace(rank.at("rank").get<Rank>(), rank.get<RankProgress>());
    return progress;
  } catch (const json::exception& error) {
    spdlog::warn("progress file {} cannot be read, {} is read from its start: {}", file_for(path), path,
                 error.what());
    return std::nullopt;
  }
}

bool ProgressStore::save(const std::string& path, const FileProgress& progress) {
  json ranks = json::array();
  for (const auto& [rank, state] : progress.ranks) {
    json entry = state;
    entry["rank"] = rank;
    ranks.push_back(std::move(entry));
  }
  const json stored{{"collector", collector_},      {"run", run_},
                    {"path", escape_to_utf8(path)}, {"collector_id", progress.collector_id},
                    {"place", progress.place},      {"ranks", ranks}};
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const std::string file = file_for(path), temporary = file + "." + std::to_string(::getpid());
  const std::string text = stored.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  if (write_file(temporary, text) && std::rename(temporary.c_str(), file.c_str()) == 0) return true;
  if (!warned_)
    spdlog::warn("cannot keep progress in {} ({}); after a restart the files are read from their start",
                 directory_, std::strerror(errno));
  warned_ = true;
  return false;
}

}  // namespace laggard::agent
