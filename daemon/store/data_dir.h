// The collector's data directory: on a local disk, and one daemon's at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "daemon/base/file_system.h"

namespace laggard::store {

using FileSystemOf = std::function<std::optional<std::int64_t>(const std::filesystem::path&)>;

/// A data directory, locked for as long as the object lives.
class DataDir {
 public:
  /// Creates the directory (mode 0700) when it is missing. Throws Error, with nothing created, for a network
  /// file system: SQLite's WAL needs memory shared between processes, and locks that work. Throws Error when
  /// another daemon has the directory, or when it cannot be written.
  explicit DataDir(std::filesystem::path path, const FileSystemOf& file_system = file_system_of);
  ~DataDir();
  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path database() const { return path_ / "laggard.db"; }
  /// Makes the database file, empty and readable by its owner alone, unless it is there.
  void create_database_file() const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace laggard::store
