// Every answer of the HTTP API as JSON. It knows no transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/profile.h"
#include "daemon/core/report.h"
#include "daemon/core/snapshot.h"
#include "daemon/serve/history.h"
#include "daemon/serve/json.h"

namespace laggard::serve {

struct StorageFacts {
  std::string path;
  std::uint64_t bytes = 0, wal_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< on the file system
};

/// What the service asks of the rest of the collector. Every function may be called from any thread.
struct Collector {
  std::string version;
  std::string collector_id;
  std::string ingest;  ///< the address agents connect to
  core::UnixMs started = 0;
  std::function<core::UnixMs()> now;
  /// The newest snapshot; null until the engine has published one.
  std::function<std::shared_ptr<const core::Snapshot>()> snapshot;
  std::function<StorageFacts()> storage;           ///< must not wait for the database
  std::function<void(const std::string&)> close;   ///< closes a run; returns when that is durable
  std::function<void(const std::string&)> remove;  ///< deletes a run, likewise
};

/// Which attempt of a run: the newest one without a number.
struct AttemptAsked {
  std::string run;
  std::optional<std::uint32_t> attempt;
};

struct StepsAsked {
  core::Window window;
  std::size_t limit = 1000;
  bool newest = false;  ///< the newest `limit` steps instead of the first
};

struct ReportAsked {
  std::vector<std::string> runs;  ///< "name" or "name@attempt"
  core::Window window;
  bool window_only = false;  ///< steps outside the window need not be read, and are in no figure
  Profile profile;
};

struct CompareAsked {
  std::vector<std::string> base, newer;  ///< "name" or "name@attempt"
  core::Window window;
  Profile profile;
};

/// Answers from the newest snapshot where no History is given, else from storage, and steps from whichever of
/// the two is newer. Throws QueryError when there is no answer, QueryTimeout when it takes too long. Any
/// number of threads may call it at once.
class QueryService {
 public:
  explicit QueryService(Collector collector) : collector_(std::move(collector)) {}

  bool ready() const { return collector_.snapshot() != nullptr; }
  core::UnixMs now() const { return collector_.now(); }
  /// The newest snapshot; QueryError 503 when there is none yet.
  std::shared_ptr<const core::Snapshot> snapshot() const;
  const Collector& collector() const { return collector_; }

  Json status() const;
  Json runs() const;
  /// RunStatus.
  Json run(const AttemptAsked& asked) const;
  Json ranks(const AttemptAsked& asked, History& history) const;
  Json steps(const AttemptAsked& asked, const StepsAsked& steps, History& history) const;
  Json step(const AttemptAsked& asked, Step step, History& history) const;
  /// All three throw QueryTimeout at the first step that they come to after `until`.
  Json stages(const AttemptAsked& asked, const core::Window& window, History& history,
              core::UnixMs until) const;
  Json report(const ReportAsked& asked, History& history, core::UnixMs until) const;
  /// QueryError 400 when an attempt is named twice.
  Json compare(const CompareAsked& asked, History& history, core::UnixMs until) const;
  /// When a report that is asked for now has to be done.
  core::UnixMs report_deadline() const;
  Json close_run(const std::string& run) const;
  Json delete_run(const std::string& run) const;

  /// QueryError 404 when there is no such run or attempt.
  std::shared_ptr<const core::RunView> find_run(const AttemptAsked& asked) const;
  /// The attempt as it is stored, the snapshot's newest one without a number: never an older one that happens
  /// to be stored already. QueryError 404 when there is no such run or attempt, or nothing of it is stored.
  core::AttemptRow stored_attempt(const AttemptAsked& asked, History& history) const;

  /// Makes queries that are in progress throw QueryTimeout at their next step, and later ones at once.
  void cancel() { cancelled_ = true; }
  /// Throws QueryTimeout after cancel().
  void check_cancelled() const;

 private:
  /// Of the stored steps in `read`, those in the window that the report is of.
  struct ReportPart {
    core::Window read;
    core::Window window;
    core::UnixMs until = 0;
    core::Judged judged = core::Judged::yes;
  };
  core::RunReport report_of(const AttemptAsked& asked, const ReportPart& part, const Profile& profile,
                            History& history) const;
  void check_time(core::UnixMs until) const;
  AttemptAsked parse_run(const std::string& text) const;

  const Collector collector_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace laggard::serve
