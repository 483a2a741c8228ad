// The records of an attempt as JSONL, piece by piece.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/step_records.h"
#include "daemon/serve/history.h"
#include "daemon/serve/query_service.h"

namespace laggard::serve {

/// Writes config lines first, then every stored record by step and rank. Between two pieces it holds
/// limits::kExportReadAheadBytes of records and a step more at most, and no database cursor: a client that
/// reads slowly keeps neither a worker nor a read transaction. Records that come for a step already read are
/// not in the export.
class Export {
 public:
  /// Throws QueryError when there is no such run or attempt.
  Export(const QueryService& service, const AttemptAsked& asked, History& history);

  /// Appends the next lines, around limits::kExportChunkBytes of them; false when none are left after them.
  bool next(History& history, std::string* out);

 private:
  void read_ahead(History& history);
  void write_step(const LayoutTable& layouts, std::size_t enough, std::string* out);

  const QueryService& service_;
  core::AttemptId attempt_ = 0;
  std::vector<std::string> settings_;
  std::size_t next_setting_ = 0;
  std::optional<Step> last_step_;        // the newest step read
  std::deque<core::StepRecords> steps_;  // read, and not yet written to their end
  std::vector<Rank> ranks_;              // of steps_.front()
  std::size_t next_rank_ = 0;
  bool all_read_ = false;
};

}  // namespace laggard::serve
