#include "daemon/store/step_deletion.h"

namespace laggard::store {

StepDeletion::StepDeletion(Database& database)
    : blocks_(database, "DELETE FROM blocks WHERE attempt_id = ? AND step <= ?"),
      stages_(database, "DELETE FROM step_stages WHERE attempt_id = ? AND step <= ?"),
      steps_(database, "DELETE FROM steps WHERE attempt_id = ? AND step <= ?") {}

void StepDeletion::everything(core::AttemptId attempt, Step last) {
  records(attempt, last);
  stages_.run(attempt, last);
  steps_.run(attempt, last);
}

}  // namespace laggard::store
