// Makes the engine's writes durable, one transaction for each group.
#pragma once

#include "daemon/core/writes.h"
#include "daemon/store/database.h"
#include "daemon/store/step_deletion.h"
#include "proto/codec.h"

namespace laggard::store {

class Writer {
 public:
  /// The database must be of the newest schema and outlive the writer.
  explicit Writer(Database& database);

  /// All of it or nothing. Throws Error with everything as it was, so the same writes may be tried again.
  void commit(const core::Writes& writes);

 private:
  void delete_rows(const core::Writes& writes);
  void write_facts(const core::Writes& writes);
  void write_step(const core::StepRow& row);

  Database& database_;
  codec::BlockEncoder encoder_;
  Statement run_, attempt_, rank_, rank_settings_, stage_, layout_, source_, step_, step_stage_, block_;
  StepDeletion delete_steps_;
};

}  // namespace laggard::store
