#include "daemon/store/retention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/store/rows.h"

namespace laggard::store {
namespace {

constexpr Step kLowestStep = std::numeric_limits<Step>::min();
constexpr Step kHighestStep = std::numeric_limits<Step>::max();

// The oldest step of an attempt from a level's floor on, when it came, and when the attempt's last record
// did.
std::string oldest(const char* floor, const char* which) {
  return std::string(
             "SELECT a.attempt_id, s.step, s.first_received_unix_ms, a.last_received_unix_ms FROM attempts a "
             "JOIN steps s ON s.attempt_id = a.attempt_id AND s.step = "
             "(SELECT min(step) FROM steps WHERE attempt_id = a.attempt_id AND step >= coalesce(a.") +
         floor + ", " + std::to_string(kLowestStep) + "))" + which;
}

constexpr const char* kRecordsFloor = "records_from";
constexpr const char* kSummariesFloor = "summaries_from";
constexpr const char* kOne = " WHERE a.attempt_id = ?";

}  // namespace

Retention::Retention(Database& database, RetentionLimits limits)
    : database_(database),
      limits_(limits),
      all_records_(database, oldest(kRecordsFloor, "")),
      all_summaries_(database, oldest(kSummariesFloor, "")),
      oldest_record_(database, oldest(kRecordsFloor, kOne)),
      oldest_summary_(database, oldest(kSummariesFloor, kOne)),
      newest_to_go_(database,
                    "SELECT step FROM steps WHERE attempt_id = ? ORDER BY step DESC LIMIT 1 OFFSET ?"),
      walk_(database,
            "SELECT s.step, s.state, s.first_received_unix_ms, length(b.records) FROM steps s "
            "LEFT JOIN blocks b ON b.attempt_id = s.attempt_id AND b.step = s.step "
            "WHERE s.attempt_id = ? AND s.step >= ? ORDER BY s.step"),
      old_runs_(
          database,
          "SELECT r.run_id, coalesce(max(a.last_received_unix_ms), r.created_unix_ms) AS last FROM runs r "
          "LEFT JOIN attempts a USING (run_id) GROUP BY r.run_id HAVING last < ? ORDER BY last LIMIT ?"),
      deleted_(database, "SELECT attempt_id FROM deletions LIMIT 1"),
      delete_steps_(database),
      delete_names_(database, "DELETE FROM stages WHERE attempt_id = ?"),
      forget_(database, "DELETE FROM deletions WHERE attempt_id = ?") {}

Upkeep Retention::next(core::UnixMs now) {
  Upkeep upkeep{.more = delete_some()};
  // What a deleted run gives back may be enough.
  bool full = !upkeep.more && is_full();
  if (!looked_at_.has_value() || now - *looked_at_ >= kLookEveryMs) look(now);
  const core::UnixMs reference = std::min(now, newest_record());
  upkeep.expiry = take(records_, true, limits_.records_ms, full, reference);
  if (upkeep.expiry.has_value()) return upkeep;
  if (full) {
    // Records go before summaries, those of attempts that are younger than the last look too.
    if (looked_at_ != now) {
      if (now - *looked_at_ < kLookWhenFullMs) return upkeep;
      look(now);
      upkeep.expiry = take(records_, true, limits_.records_ms, true, reference);
      if (upkeep.expiry.has_value()) return upkeep;
    }
    upkeep.stuck = records_alone_fill_it();
    full = !upkeep.stuck;
  }
  upkeep.expiry = take(summaries_, false, limits_.summaries_ms, full, reference);
  if (upkeep.expiry.has_value() || (!full && limits_.summaries_ms == 0)) return upkeep;
  upkeep.runs_before = reference - (full ? kOverAfterMs : limits_.summaries_ms);
  Rows rows = old_runs_.query(upkeep.runs_before, kMostRunsNamed);
  while (rows.next()) upkeep.runs.push_back(rows.integer());
  return upkeep;
}

void Retention::look(core::UnixMs now) {
  looked_at_ = now;
  for (const auto& [level, statement] :
       {std::pair(&records_, &all_records_), {&summaries_, &all_summaries_}}) {
    level->clear();
    Rows rows = statement->query();
    while (rows.next()) {
      const core::AttemptId attempt = rows.integer();
      rows.integer();  // the step
      level->emplace(rows.integer(), attempt);
    }
  }
}

core::UnixMs Retention::newest_record() {
  return database_.integer("SELECT max(last_received_unix_ms) FROM attempts");
}

bool Retention::is_full() {
  if (limits_.max_bytes == 0) return false;
  const std::int64_t pages =
      database_.integer("PRAGMA page_count") - database_.integer("PRAGMA freelist_count");
  return static_cast<std::uint64_t>(pages * database_.integer("PRAGMA page_size")) > limits_.max_bytes;
}

// Then nothing else that goes would make the database small enough.
bool Retention::records_alone_fill_it() {
  return static_cast<std::uint64_t>(database_.integer("SELECT sum(length(records)) FROM blocks")) >
         limits_.max_bytes;
}

// The oldest slice of a level that is too old, or that has to make room.
std::optional<core::Expiry> Retention::take(ByAge& from, bool records, std::int64_t keep_ms, bool full,
                                            core::UnixMs now) {
  const core::UnixMs too_old = keep_ms > 0 ? now - keep_ms : std::numeric_limits<core::UnixMs>::min();
  while (!from.empty() && (full || from.begin()->first < too_old)) {
    const core::AttemptId attempt = from.extract(from.begin()).mapped();
    std::optional<Step> first;
    core::UnixMs last_received = 0;
    {
      // As it stands now: what was named before may have been left alone.
      Rows rows = (records ? oldest_record_ : oldest_summary_).query(attempt);
      if (!rows.next()) continue;
      rows.integer();  // the attempt
      first = rows.integer();
      rows.integer();  // when that came
      last_received = rows.integer();
    }
    const bool over = records && last_received < now - kOverAfterMs;
    const Slice slice = slice_of(attempt, *first, over ? kNewestKeptWhenOver : kNewestKept,
                                 full ? std::nullopt : std::optional(too_old));
    if (!slice.end.has_value()) continue;
    if (slice.next_received.has_value()) from.emplace(*slice.next_received, attempt);
    core::Expiry expiry{.attempt = attempt, .records_from = slice.end};
    if (!records) {
      expiry.summaries_from = slice.end;
      expiry.steps = slice.steps;
    }
    return expiry;
  }
  return std::nullopt;
}

// Steps from `first` on that go together: not the newest `kept`, and with `before` only those that came
// earlier.
Retention::Slice Retention::slice_of(core::AttemptId attempt, Step first, std::int64_t kept,
                                     std::optional<core::UnixMs> before) {
  std::optional<Step> last;
  {
    Rows rows = newest_to_go_.query(attempt, kept);
    if (rows.next()) last = rows.integer();
  }
  Slice slice;
  std::optional<Step> counted;
  std::size_t steps = 0, bytes = 0;
  Rows rows = walk_.query(attempt, first);
  while (last.has_value() && rows.next()) {
    const Step step = rows.integer();
    const core::StepState state = read_step_state(rows);
    const core::UnixMs received = rows.integer();
    if (counted != step) {
      const bool enough = steps == kSliceSteps || bytes >= kSliceBytes;
      if (step > *last || enough || (state == core::StepState::open && kept > 0) ||
          received >= before.value_or(received + 1)) {
        if (counted.has_value()) slice.next_received = received;
        break;
      }
      counted = step;
      ++steps;
      ++slice.steps[state];
    }
    bytes += rows.as<std::size_t>();
  }
  if (counted.has_value() && *counted < kHighestStep) slice.end = *counted + 1;
  return slice;
}

bool Retention::delete_some() {
  std::optional<core::AttemptId> attempt;
  {
    Rows rows = deleted_.query();
    if (rows.next()) attempt = rows.integer();
  }
  if (!attempt.has_value()) return false;
  const Slice slice = slice_of(*attempt, kLowestStep, 0, std::nullopt);
  Transaction transaction(database_, Transaction::Kind::write);
  const Step last = slice.next_received.has_value() ? *slice.end - 1 : kHighestStep;
  delete_steps_.everything(*attempt, last);
  if (last == kHighestStep) {
    delete_names_.run(*attempt);
    forget_.run(*attempt);
  }
  transaction.commit();
  return true;
}

}  // namespace laggard::store
