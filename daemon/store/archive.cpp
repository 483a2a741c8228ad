#include "daemon/store/archive.h"

#include <memory>
#include <string>
#include <utility>

#include "daemon/store/rows.h"

namespace laggard::store {

Archive::Archive(const std::filesystem::path& database)
    : database_(database.string(), Database::Mode::read_only),
      blocks_(database_),
      step_(database_,
            "SELECT state, first_received_unix_ms, settled_unix_ms FROM steps "
            "WHERE attempt_id = ? AND step = ?") {}

std::optional<core::StoredStep> Archive::load(core::AttemptId attempt, Step step) {
  const Transaction transaction(database_, Transaction::Kind::read);
  std::unique_ptr<core::StepRecords> records = blocks_.load(attempt, step);
  if (records == nullptr) return std::nullopt;
  Rows rows = step_.query(attempt, step);
  if (!rows.next()) rows.damaged("step " + std::to_string(step) + " has records and no summary");
  return core::StoredStep{.records = std::move(records),
                          .state = read_step_state(rows),
                          .first_received = rows.integer(),
                          .settled_at = rows.integer()};
}

}  // namespace laggard::store
