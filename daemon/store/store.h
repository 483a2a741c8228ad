// The collector's database: one file in the data directory, one writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "daemon/core/writes.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/database.h"
#include "daemon/store/retention.h"
#include "daemon/store/writer.h"

namespace laggard::store {

struct StoreOptions {
  FileSystemOf file_system = file_system_of;
  RetentionLimits retention;
  /// The WAL is copied into the database when it has grown to this, and cut back to it.
  std::int64_t wal_bytes = std::int64_t{64} << 20;
  /// While another program's read transaction keeps the WAL from being copied, it grows. At this size nothing
  /// more is written until that transaction ends.
  std::int64_t max_wal_bytes = std::int64_t{4} << 30;
};

/// Owns the data directory and the only connection that writes. For one thread at a time, except where said
/// otherwise.
class Store {
 public:
  /// Opens DIR/laggard.db (mode 0600), making it and DIR (0700) when they are missing, and brings an older
  /// schema to this one. Throws Error with one sentence, having changed nothing, when another daemon has the
  /// directory, it is on a network file system, the schema is newer, or the file
  /// is damaged or none of ours; and when the directory cannot be written.
  explicit Store(std::filesystem::path dir, const StoreOptions& options = {});

  core::Restored restore();

  /// One transaction, durable on return. A step written again replaces what was stored of it; of its blocks
  /// only those given. Throws Error with the database as it was before: the same writes may be tried again.
  void commit(const core::Writes& writes);
  /// To be called now and then, best after a commit: cuts the WAL back and says what is kept too long. Throws
  /// Error.
  Upkeep upkeep(core::UnixMs now);

  /// The file that an Archive or a Reader opens. Any thread.
  std::filesystem::path database_path() const { return dir_.database(); }

  struct Sizes {
    std::uintmax_t database_bytes = 0;
    std::uintmax_t wal_bytes = 0;
    std::uintmax_t free_bytes = 0;  ///< what the disk has left for us
  };
  /// Any thread. A figure that cannot be had is 0.
  Sizes sizes() const;

 private:
  void restore_steps(core::Restored* restored);
  void cut_wal();

  const StoreOptions options_;
  DataDir dir_;
  std::unique_ptr<Database> database_;
  Writer writer_;
  Retention retention_;
};

}  // namespace laggard::store
