// Reads stored blocks back into records, for the writer's connection and for readers alike.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "daemon/core/step_records.h"
#include "daemon/store/database.h"

namespace laggard::store {

class BlockReader {
 public:
  explicit BlockReader(Database& database);

  /// Every layout stored so far. Addresses and ids stay valid; a later call may add some.
  const LayoutTable& layouts();
  /// The records of a step; null when none are stored.
  std::unique_ptr<core::StepRecords> load(core::AttemptId attempt, Step step);
  /// Whole steps from `from` to `to`, ascending, until they take more than `bytes` as stored. Only steps
  /// that have records. Empty when there are none left.
  std::vector<core::StepRecords> slice(core::AttemptId attempt, Step from, Step to, std::size_t bytes);

 private:
  Database& database_;
  Statement select_layouts_;
  Statement select_blocks_;
  LayoutTable layouts_;
};

}  // namespace laggard::store
