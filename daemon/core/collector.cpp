#include "daemon/core/collector.h"

#include <algorithm>

#include "daemon/base/limits.h"
#include "daemon/base/settings.h"

namespace laggard::core {
// ---- sources come and go ----

std::variant<Welcomed, Refused> Collector::hello(const Hello& hello, const std::vector<Layout>& layouts,
                                                 UnixMs now) {
  if (layouts.size() > limits::kMaxLayoutsPerSource)
    return Refused{"too many record shapes: at most " + std::to_string(limits::kMaxLayoutsPerSource) +
                   " a source are taken"};
  std::vector<LayoutId> ids;
  for (const Layout& layout : layouts) {
    const auto id = intern(layout);
    if (!id.has_value())
      return Refused{"this database holds " + std::to_string(limits::kMaxLayouts) +
                     " record shapes, the most it takes"};
    ids.push_back(*id);
  }
  if (hello.attempt_offset > limits::kMaxAttempt)
    return Refused{"attempt_offset " + std::to_string(hello.attempt_offset) + " is beyond " +
                   std::to_string(limits::kMaxAttempt)};
  Run* run = find_or_add_run(hello.run, now);
  if (run == nullptr)
    return Refused{"this collector holds " + std::to_string(limits::kMaxRuns) + " runs, the most it takes"};

  auto known = source_by_id_.find(hello.source_id);
  if (known != source_by_id_.end()) {
    const SourceRow& row = sources_.at(known->second).row;
    if (row.run != run->row.id || row.rank != hello.rank)
      return Refused{"source id " + hello.source_id + " belongs to another rank or run"};
  } else {
    Source fresh;
    fresh.row = {.key = next_source_++,
                 .run = run->row.id,
                 .rank = hello.rank,
                 .id = hello.source_id,
                 .host = hello.host,
                 .origin = hello.origin,
                 .pid = hello.pid,
                 .started_unix_ms = hello.started_unix_ms};
    if (hello.resumed) begin_at(fresh, hello.attempt_offset);
    fresh.resumed = hello.resumed;
    fresh.dirty = true;
    fresh.told = {.source = fresh.row.key, .attempt_offset = fresh.row.attempt_offset};
    forget_oldest_source(*run, hello.rank);
    run->sources[hello.rank].push_back(fresh.row.key);
    known = source_by_id_.emplace(hello.source_id, fresh.row.key).first;
    sources_.emplace(fresh.row.key, std::move(fresh));
  }

  Source& source = sources_.at(known->second);
  source.layouts = std::move(ids);
  const bool stages_told =
      source.stage_parents != hello.stage_parents || source.stage_kinds != hello.stage_kinds;
  source.stage_parents = hello.stage_parents;
  source.stage_kinds = hello.stage_kinds;
  // A source that goes on says Hello again when it has met further stages.
  if (Attempt* attempt = attempt_written(source); attempt != nullptr && stages_told)
    attempt->learn_stages(source.stage_parents, source.stage_kinds, Knowledge::profile, now);
  replace_earlier(*run, source, now);
  heard(source, now);
  return Welcomed{source.row.key, source.told.committed_seq, source.told.attempt_offset};
}

void Collector::replace_earlier(Run& run, const Source& source, UnixMs now) {
  // The same file read by a later agent: the earlier one is gone, whether or not it could say so.
  for (const SourceKey key : run.sources[source.row.rank]) {
    Source& other = sources_.at(key);
    if (key != source.row.key && other.live && other.row.host == source.row.host &&
        other.row.origin == source.row.origin)
      went(other, false, now);
  }
}

void Collector::heard(Source& source, UnixMs now) {
  source.last_heard = now;
  source.heard = true;
  if (source.live) return;
  source.live = true;
  source.row.gone = false;
  source.dirty = true;
  if (Attempt* attempt = attempt_written(source))
    attempt->source_changed(source.row.rank, source.row.host, true, false, now);
}

void Collector::went(Source& source, bool finished, UnixMs now) {
  if (!source.live) return;
  source.live = false;
  source.row.gone = true;
  source.dirty = true;
  if (Attempt* attempt = attempt_written(source))
    attempt->source_changed(source.row.rank, source.row.host, false, finished, now);
}

void Collector::heartbeat(SourceKey key, const std::optional<LineTotals>& lines, UnixMs now) {
  Source& source = sources_.at(key);
  heard(source, now);
  Attempt* attempt = attempt_written(source);
  if (!lines.has_value() || attempt == nullptr || *lines == source.lines) return;
  if (lines->accepted < source.lines.accepted || lines->foreign < source.lines.foreign ||
      lines->rejected < source.lines.rejected)
    return;  // lines that were read stay read
  attempt->add_lines(source.lines, *lines);
  source.lines = *lines;
}

void Collector::bye(SourceKey key, bool finished, UnixMs now) {
  Source& source = sources_.at(key);
  heard(source, now);  // it may have been given up in the meantime: what it says last counts all the same
  went(source, finished, now);
}

void Collector::tick(UnixMs now, UnixMs listening_since) {
  for (auto& [key, source] : sources_)
    if (source.live && now - std::max(source.last_heard, listening_since) > options_.source_timeout_ms)
      went(source, false, now);
  for (auto& [id, run] : runs_)
    for (auto& [number, attempt] : run.attempts) {
      attempt->tick(now);
      attempt->shed(now);
    }
}

bool Collector::close_run(const std::string& name) {
  const auto it = run_by_name_.find(name);
  if (it == run_by_name_.end()) return false;
  Run& run = runs_.at(it->second);
  run.row.closed = true;
  run.dirty = true;
  run.view.reset();
  return true;
}

// ---- which attempt ----

Collector::Run* Collector::find_or_add_run(const std::string& name, UnixMs now) {
  if (const auto it = run_by_name_.find(name); it != run_by_name_.end()) return &runs_.at(it->second);
  if (runs_.size() >= limits::kMaxRuns) return nullptr;
  const RunId id = next_run_++;
  run_by_name_.emplace(name, id);
  Run& run = runs_[id];
  run.row = {.id = id, .name = name, .created = now};
  run.dirty = true;
  return &run;
}

Attempt* Collector::attempt_written(const Source& source) {
  Run& run = runs_.at(source.row.run);
  const auto it = run.attempts.find(source.row.attempt);
  return it == run.attempts.end() ? nullptr : it->second.get();
}

Attempt& Collector::attempt_of(Run& run, std::uint32_t number, UnixMs now) {
  std::unique_ptr<Attempt>& attempt = run.attempts[number];
  if (attempt == nullptr) {
    const AttemptRow row{.id = next_attempt_id_++,
                         .run = run.row.id,
                         .attempt = number,
                         .first_received = now,
                         .last_received = now};
    attempt = std::make_unique<Attempt>(row, options_, layouts_, archive_, events_);
  }
  return *attempt;
}

std::uint32_t Collector::newest_attempt_with(const Run& run, Rank rank) {
  for (auto it = run.attempts.rbegin(); it != run.attempts.rend(); ++it)
    if (it->second->has_rank(rank)) return it->first;
  return 0;
}

// Whether this rank is not in it, and its world has the size that the rank says.
bool Collector::could_join(const Attempt& attempt, Rank rank, std::uint32_t world_size) {
  const std::uint32_t theirs = attempt.row().world_size;
  return !attempt.has_rank(rank) && (world_size == 0 || theirs == 0 || theirs == world_size);
}

// The attempt a rank goes on to: from `least` on, the first that other ranks are in, this one is not, and
// whose world has the size and whose start is the one that it says; else a new one.
std::uint32_t Collector::next_attempt(const Run& run, Rank rank, std::uint32_t least,
                                      std::uint32_t world_size, const std::string& launch) {
  for (auto it = run.attempts.lower_bound(least); it != run.attempts.end(); ++it) {
    const Attempt& attempt = *it->second;
    const bool same_start = launch.empty() || attempt.launch().empty() || attempt.launch() == launch;
    if (same_start && could_join(attempt, rank, world_size)) return it->first;
  }
  return run.attempts.empty() ? least : std::max(least, run.attempts.rbegin()->first + 1);
}

const Collector::Source* Collector::other_live_source(Run& run, const Source& source) const {
  for (const SourceKey key : run.sources[source.row.rank]) {
    const Source& other = sources_.at(key);
    // One that was known before a restart and has not been heard since may be long gone.
    if (key != source.row.key && other.live && other.heard && other.row.attempt != 0) return &other;
  }
  return nullptr;
}

Clash Collector::clash_of(const Source& first, const Source& second) {
  return {first.row.rank, {first.row.host, first.row.origin}, {second.row.host, second.row.origin}};
}

// Chooses the attempt for the first item of a source that no earlier one of the same file explains.
std::uint32_t Collector::first_attempt(Run& run, const Source& source, const Items& items, UnixMs now) {
  const Rank rank = source.row.rank;
  const auto* config = std::get_if<ConfigItem>(&items.what);
  const std::uint32_t world_size = config == nullptr ? 0 : config->world_size;
  const std::string launch = config == nullptr ? "" : parse_settings(config->settings).launch;
  const std::uint32_t newest = newest_attempt_with(run, rank);
  const Source* other = other_live_source(run, source);
  if (items.explicit_attempt) {
    if (other != nullptr && other->row.attempt == items.attempt)
      attempt_of(run, items.attempt, now).add_clash(clash_of(*other, source));
    return items.attempt;
  }
  // Two jobs of one name can begin at the same time. What tells a start may come again when it is over.
  for (auto it = run.attempts.rbegin(); it != run.attempts.rend() && !launch.empty(); ++it)
    if (it->second->launch() == launch && it->second->any_live() && could_join(*it->second, rank, world_size))
      return it->first;
  if (newest == 0) return next_attempt(run, rank, items.attempt, world_size, launch);

  if (other != nullptr) {
    const std::uint32_t number = next_attempt(run, rank, newest + 1, world_size, launch);
    attempt_of(run, number, now).add_clash(clash_of(*other, source));
    return number;
  }
  // Another file of this rank, and the earlier one is gone. With the settings of an attempt it had, it is
  // taken to go on there (a rotated or copied log); other settings begin the next.
  if (config == nullptr) return newest;
  for (auto it = run.attempts.rbegin(); it != run.attempts.rend(); ++it)
    if (it->second->has_rank(rank) && it->second->settings(rank) == config->settings) return it->first;
  return next_attempt(run, rank, newest + 1, world_size, launch);
}

// Whether the first item of a file can be the one that a file of the same name began with. Other settings are
// another job's, which has written its log over the old one.
bool Collector::continues(const Run& run, const SourceRow& earlier, const Items& items) {
  const auto* config = std::get_if<ConfigItem>(&items.what);
  if (config == nullptr) return true;
  const auto attempt = run.attempts.find(items.attempt + earlier.base_offset);
  return attempt == run.attempts.end() || attempt->second->settings(earlier.rank).empty() ||
         attempt->second->settings(earlier.rank) == config->settings;
}

void Collector::begin_at(Source& source, std::uint32_t offset) {
  source.dirty = true;
  source.row.base_offset = source.row.attempt_offset = source.attempt_offset = offset;
}

void Collector::place(Run& run, Source& source, const Items& items, UnixMs now) {
  if (source.placed) return;
  source.placed = true;
  if (source.resumed) return;
  for (const SourceKey key : run.sources[source.row.rank]) {
    const SourceRow& earlier = sources_.at(key).row;
    if (key == source.row.key || earlier.attempt == 0 || earlier.host != source.row.host ||
        earlier.origin != source.row.origin || !continues(run, earlier, items))
      continue;
    // The same file read from its start again: it gets the numbers it had.
    begin_at(source, earlier.base_offset);
    return;
  }
  const std::uint32_t number = first_attempt(run, source, items, now);
  const std::uint32_t offset = number > items.attempt ? number - items.attempt : 0;
  begin_at(source, offset);
}

Attempt& Collector::write_to(Run& run, Source& source, std::uint32_t number, UnixMs now) {
  Attempt& attempt = attempt_of(run, number, now);
  if (source.row.attempt == number) return attempt;
  if (Attempt* before = attempt_written(source)) {
    before->source_changed(source.row.rank, source.row.host, false, /*finished=*/true, now);
    // The lines read so far stay counted there; the tail is of the file as it is now.
    LineTotals without_tail = source.lines;
    without_tail.pending_tail = 0;
    before->add_lines(source.lines, without_tail);
    source.lines = without_tail;
  }
  source.row.attempt = number;
  source.dirty = true;
  source.newest_step.reset();
  source.newest_from_expired = !source.resumed;
  attempt.learn_stages(source.stage_parents, source.stage_kinds, Knowledge::profile, now);
  attempt.source_changed(source.row.rank, source.row.host, source.live, false, now);
  return attempt;
}

// ---- items ----

Collector::Taken Collector::apply(SourceKey key, const Items& items, UnixMs now) {
  Source& source = sources_.at(key);
  Run& run = runs_.at(source.row.run);
  heard(source, now);
  const std::uint64_t next = source.received_seq + 1;
  if (items.first_seq == 0 || items.first_seq > next + items.dropped_before) return Taken::gap;
  const std::uint64_t last = items.first_seq + items.count() - 1;
  // What is here but not yet durable is acknowledged when it is.
  if (last < next) return last <= source.told.committed_seq ? Taken::durable_before : Taken::taken;
  const std::uint64_t dropped = items.first_seq > next ? items.first_seq - next : 0;
  const std::uint64_t skip = items.first_seq < next ? next - items.first_seq : 0;

  source.received_seq = last;
  place(run, source, items, now);
  Attempt& attempt = write_to(run, source, items.attempt + source.attempt_offset, now);
  if (dropped > 0) note(source, attempt, {next, items.first_seq - 1, &DeliveryCounts::dropped});
  if (!learn_layouts(source, items)) {
    note(source, attempt, {items.first_seq + skip, last, &DeliveryCounts::rejected});
    return Taken::taken;
  }
  if (run.row.closed) {
    run.row.closed = false;
    run.dirty = true;
    run.view.reset();
  }
  if (const auto* records = std::get_if<PackedRecords>(&items.what))
    take_records(run, source, items, *records, skip, now);
  else
    take_news(source, attempt, items, now);
  return Taken::taken;
}

// A config or an end: each is one item, and stored with its rank's row.
void Collector::take_news(Source& source, Attempt& attempt, const Items& items, UnixMs now) {
  const auto* config = std::get_if<ConfigItem>(&items.what);
  const bool is_new = config != nullptr
                          ? attempt.configure(source.row.rank, config->world_size, config->settings, now)
                          : attempt.end(source.row.rank, now);
  note(source, attempt,
       {items.first_seq, items.first_seq, is_new ? &DeliveryCounts::stored : &DeliveryCounts::duplicate});
}

void Collector::Outcome::add_to(DeliveryCounts& counts, std::uint64_t items) const {
  counts.*what += items;
  counts.late += late ? 1 : 0;
  counts.invalid_values += invalid_values;
}

void Collector::note(Source& source, Attempt& attempt, const Outcome& outcome) {
  outcome.add_to(attempt.counts(), outcome.last - outcome.first + 1);
  const auto is_plain = [](const Outcome& o) { return !o.late && o.invalid_values == 0; };
  if (!source.outcomes.empty()) {
    Outcome& back = source.outcomes.back();
    if (back.what == outcome.what && back.last + 1 == outcome.first && is_plain(back) && is_plain(outcome)) {
      back.last = outcome.last;
      return;
    }
  }
  source.outcomes.push_back(outcome);
}

bool Collector::learn_layouts(Source& source, const Items& items) {
  for (std::size_t i = 0; i < items.layouts.size(); ++i) {
    const std::size_t index = items.first_layout + i;
    if (index < source.layouts.size()) continue;  // said before, in a batch that is sent again
    const auto id = intern(items.layouts[i]);
    if (index > source.layouts.size() || !id.has_value()) return false;
    source.layouts.push_back(*id);
  }
  const auto* records = std::get_if<PackedRecords>(&items.what);
  if (records == nullptr) return true;
  // The ingest side has checked the columns against what it was told, which after a lost message or a second
  // Hello need not be what is known here.
  for (std::size_t i = 0; i < records->size(); ++i) {
    const LayoutId id = records->layout_id(i);
    if (id >= source.layouts.size() || !records->fits(i, layouts_[source.layouts[id]])) return false;
  }
  return true;
}

std::optional<LayoutId> Collector::intern(const Layout& layout) {
  if (layouts_.size() >= limits::kMaxLayouts) return layouts_.id_of(layout);
  return layouts_.intern(layout);
}

void Collector::take_records(Run& run, Source& source, const Items& items, const PackedRecords& records,
                             std::uint64_t skip, UnixMs now) {
  for (std::size_t i = skip; i < records.size(); ++i) {
    const LayoutId layout = source.layouts[records.layout_id(i)];
    RecordView record = records.view(i, layouts_[layout]);
    record.rank = source.row.rank;  // what Hello said, whatever the record claims
    take_record(run, source, items.attempt, record, layout, items.first_seq + i, now);
  }
}

void Collector::take_record(Run& run, Source& source, std::uint32_t local_attempt, const RecordView& record,
                            LayoutId layout, std::uint64_t seq, UnixMs now) {
  for (;;) {
    Attempt& attempt = write_to(run, source, local_attempt + source.attempt_offset, now);
    const Attempt::Taken taken = attempt.take(record, layout, source.row.key, seq, now);
    const bool expired = taken.found == Attempt::Found::expired;
    if (expired && !steps_back(run, source, attempt, record)) {
      attempt.warn_of_expired();
      source.newest_step = std::max(source.newest_step.value_or(record.step), record.step);
      return note(source, attempt, {seq, seq, &DeliveryCounts::rejected});
    }
    if (taken.found == Attempt::Found::no_room)
      return note(source, attempt, {seq, seq, &DeliveryCounts::rejected});
    if (!expired) source.newest_from_expired = false;
    if (!expired && taken.found != Attempt::Found::other) {
      if (taken.found == Attempt::Found::same)
        note(source, attempt, {seq, seq, &DeliveryCounts::duplicate});
      else
        note(source, attempt, {seq, seq, &DeliveryCounts::stored, taken.late, count_invalid(record)});
      source.newest_step = std::max(source.newest_step.value_or(record.step), record.step);
      return;
    }
    if (is_conflict(source, attempt, record))
      return note(source, attempt, {seq, seq, &DeliveryCounts::conflict});
    if (local_attempt + source.attempt_offset >= limits::kMaxAttempt)
      return note(source, attempt, {seq, seq, &DeliveryCounts::rejected});
    // A step back to one seen before, with other content: the job went on from a checkpoint.
    source.new_offsets.emplace_back(seq, ++source.attempt_offset);
    Attempt& next = attempt_of(run, local_attempt + source.attempt_offset, now);
    if (!next.has_rank(record.rank)) next.inherit(attempt, record.rank);
  }
}

// A source's newest step again is a script that logs more than once a step, not a restart. What counts is
// how far this source has sent, not how far the attempt is: a file read again must be judged as before.
bool Collector::is_conflict(const Source& source, const Attempt& attempt, const RecordView& record) {
  if (source.newest_step.has_value()) return record.step == *source.newest_step;
  return source.resumed && record.step == attempt.last_step(record.rank);
}

// Whether a source that has been further than a step that is kept no longer begins again there, or only
// reads its file once more.
bool Collector::steps_back(const Run& run, const Source& source, const Attempt& attempt,
                           const RecordView& record) {
  if (!source.newest_step.has_value())
    return source.resumed && record.step < attempt.last_step(record.rank).value_or(record.step);
  if (record.step >= *source.newest_step) return false;
  if (!source.newest_from_expired) return true;
  // It has sent nothing yet that could be compared. Lines out of order look the same; only where the rank has
  // a next attempt, its file goes on there.
  const auto next = run.attempts.find(attempt.row().attempt + 1);
  return next != run.attempts.end() && next->second->has_rank(record.rank);
}

}  // namespace laggard::core
