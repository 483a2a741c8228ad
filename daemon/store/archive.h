// Stored steps for the collector: a read-only connection of its own, beside the writer's.
#pragma once

#include <filesystem>
#include <optional>

#include "daemon/core/writes.h"
#include "daemon/store/block_reader.h"
#include "daemon/store/database.h"

namespace laggard::store {

/// For one thread, whatever the writer does at the same time.
class Archive final : public core::StepArchive {
 public:
  /// Opens Store::database_path() of a store that is open. Throws Error.
  explicit Archive(const std::filesystem::path& database);

  std::optional<core::StoredStep> load(core::AttemptId attempt, Step step) override;

 private:
  Database database_;
  BlockReader blocks_;
  Statement step_;
};

}  // namespace laggard::store
