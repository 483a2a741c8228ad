// The JSON form of runs and ranks as they stand at a moment.
#pragma once

#include <optional>
#include <string_view>

#include "daemon/serve/json.h"

namespace laggard::serve {

/// A view of an attempt at a moment.
struct AttemptNow {
  const core::AttemptView& attempt;
  core::UnixMs now = 0, heard_until = 0;  ///< core::Moment
  /// When the run's newest attempt began; nothing for that attempt itself. A rank of an older one is live
  /// while it goes on writing to it after that.
  std::optional<core::UnixMs> superseded;
};
AttemptNow attempt_now(const core::RunView& run, const core::AttemptView& attempt, core::Moment moment);

/// "live", "silent", "ended" or "never".
std::string_view rank_state(const AttemptNow& at, const core::RankView& rank);

struct RankCounts {
  std::uint64_t reporting = 0;  ///< have sent a record and are not silent; those that ended count
  std::uint64_t silent = 0;     ///< should have sent by now, those never seen included
};
RankCounts count_ranks(const AttemptNow& at);

/// RunBrief of a run without any attempt: everything that an attempt would say is null.
Json run_brief(const core::RunView& run);
/// RunBrief.
Json run_brief(const core::RunView& run, const AttemptNow& at);
/// RunStatus; the counters and the storage are those of the whole collector.
Json run_status(const core::RunView& run, const AttemptNow& at, const core::Snapshot& seen);
/// RankStatus without settings.
Json rank_status(const AttemptNow& at, const core::RankView& rank);

}  // namespace laggard::serve
