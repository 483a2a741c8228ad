// The collector's database: one file in the data directory, one writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "daemon/core/writes.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/database.h"
#include "daemon/store/writer.h"

namespace laggard::store {

/// Owns the data directory and the only connection that writes. For one thread at a time, except where said
/// otherwise.
class Store {
 public:
  /// Opens DIR/laggard.db (mode 0600), making it and DIR (0700) when they are missing, and brings an older
  /// schema to this one. Throws Error with one sentence, having changed nothing, when another daemon has the
  /// directory, it is on a network file system (as `file_system` says), the schema is newer, or the file
  /// is damaged or none of ours; and when the directory cannot be written.
  explicit Store(std::filesystem::path dir, const FileSystemOf& file_system = file_system_of);

  core::Restored restore();

  /// One transaction, durable on return. A step written again replaces what was stored of it; of its blocks
  /// only those given. Throws Error with the database as it was before: the same writes may be tried again.
  void commit(const core::Writes& writes);

  /// The file that an Archive or a Reader opens. Any thread.
  std::filesystem::path database_path() const { return dir_.database(); }

  struct Sizes {
    std::uintmax_t database_bytes = 0;
    std::uintmax_t wal_bytes = 0;   ///< bounded by kWalBytes once no reader holds a transaction open
    std::uintmax_t free_bytes = 0;  ///< what the disk has left for us
  };
  /// Any thread. A figure that cannot be had is 0.
  Sizes sizes() const;

  /// The WAL is copied into the database when it has grown to this, and cut back to it.
  static constexpr std::int64_t kWalBytes = std::int64_t{64} << 20;

 private:
  void restore_steps(core::Restored* restored);

  DataDir dir_;
  std::unique_ptr<Database> database_;
  Writer writer_;
};

}  // namespace laggard::store
