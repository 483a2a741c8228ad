// Deletes what is stored of steps: for the writer, whose steps expire, and for a deleted run, which goes bit
// by bit.
#pragma once

#include "daemon/core/writes.h"
#include "daemon/store/database.h"

namespace laggard::store {

/// Both delete up to `last`, itself included, inside the caller's transaction. Throw Error.
class StepDeletion {
 public:
  explicit StepDeletion(Database& database);

  void records(core::AttemptId attempt, Step last) { blocks_.run(attempt, last); }
  /// Records too.
  void everything(core::AttemptId attempt, Step last);

 private:
  Statement blocks_, stages_, steps_;
};

}  // namespace laggard::store
