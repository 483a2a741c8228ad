// Collector: the rows to store and what may be acknowledged, what was stored, and the snapshot.
#include <algorithm>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/core/collector.h"

namespace laggard::core {
namespace {

// Event numbers begin at the start time, so that one from before a restart is never taken for a new one.
constexpr std::uint64_t kEventsPerMs = 1000;

}  // namespace

Writes Collector::collect(UnixMs now, std::int64_t max_wait_ms) {
  Writes writes;
  for (handed_layouts_ = stored_layouts_; handed_layouts_ < layouts_.size(); ++handed_layouts_) {
    const auto id = static_cast<LayoutId>(handed_layouts_);
    writes.layouts.emplace_back(id, &layouts_[id]);
  }
  writes.deleted = handed_deleted_ = std::exchange(deleted_, {});
  for (auto& [id, run] : runs_) {
    if (run.dirty) writes.runs.push_back(run.row);
    run.handed_out = std::exchange(run.dirty, false);
    for (auto& [number, attempt] : run.attempts) attempt->collect(writes, now, max_wait_ms);
  }
  std::vector<std::uint64_t> undurable(static_cast<std::size_t>(next_source_), 0);
  for (auto& [id, run] : runs_)
    for (auto& [number, attempt] : run.attempts) attempt->add_undurable(undurable);
  for (auto& [key, source] : sources_) {
    const std::uint64_t lowest = undurable[static_cast<std::size_t>(key)];
    const std::uint64_t durable = lowest == 0 ? source.received_seq : lowest - 1;
    if (!source.dirty && durable == source.row.committed_seq) continue;
    settle_source(source, durable);
    source.dirty = false;
    source.handed_out = true;
    source.handed = {key, source.row.committed_seq, source.row.attempt_offset, source.row.counts};
    source.handed_lost = source.row.lost;
    writes.sources.push_back(source.row);
  }
  return writes;
}

void Collector::settle_source(Source& source, std::uint64_t durable) {
  source.row.committed_seq = durable;
  while (!source.outcomes.empty() && source.outcomes.front().first <= durable) {
    Outcome& front = source.outcomes.front();
    const std::uint64_t last = std::min(front.last, durable);
    front.add_to(source.row.counts, last - front.first + 1);
    if (front.what == &DeliveryCounts::dropped) lose(source, {front.first, last});
    front.first = last + 1;
    if (front.first > front.last) source.outcomes.pop_front();
  }
  while (!source.new_offsets.empty() && source.new_offsets.front().first <= durable) {
    source.row.attempt_offset = source.new_offsets.front().second;
    source.new_offsets.pop_front();
  }
}

void Collector::lose(Source& source, SeqRange range) {
  std::vector<SeqRange>& lost = source.row.lost;
  if (!lost.empty() && lost.back().last + 1 == range.first) {
    lost.back().last = range.last;
    return;
  }
  if (lost.size() == limits::kMaxLostRanges) lost.erase(lost.begin());
  lost.push_back(range);
}

// What a source has lost is shown when it is durable: a kill before that would take it back, until the agent,
// which keeps what is not acknowledged, says it again.
void Collector::show_losses(Source& source) {
  if (source.told_lost == source.handed_lost) return;
  source.told_lost = source.handed_lost;
  Run& run = runs_.at(source.row.run);
  run.lossy.insert(source.row.key);
  run.view.reset();
}

std::vector<AckInfo> Collector::committed() {
  stored_layouts_ = handed_layouts_;
  handed_deleted_ = {};
  for (auto& [id, run] : runs_)
    for (auto& [number, attempt] : run.attempts) attempt->committed();
  std::vector<AckInfo> acks;
  for (auto& [key, source] : sources_) {
    if (!source.handed_out) continue;
    source.handed_out = false;
    const std::uint64_t before = source.told.committed_seq;
    source.told = source.handed;
    show_losses(source);
    // An ack that says nothing new would look to the agent like a gap.
    if (source.told.committed_seq > before) acks.push_back(source.told);
  }
  return acks;
}

void Collector::not_committed() {
  const Deletions again = std::exchange(handed_deleted_, {});
  deleted_.runs.insert(deleted_.runs.begin(), again.runs.begin(), again.runs.end());
  deleted_.sources.insert(deleted_.sources.begin(), again.sources.begin(), again.sources.end());
  for (auto& [id, run] : runs_) {
    run.dirty = run.dirty || run.handed_out;
    for (auto& [number, attempt] : run.attempts) attempt->not_committed();
  }
  for (auto& [key, source] : sources_) {
    source.dirty = source.dirty || source.handed_out;
    source.handed_out = false;
  }
}

// ---- start ----

Collector::Collector(const Options& options, Restored restored, StepArchive& archive, UnixMs now)
    : options_(options), archive_(archive), events_(static_cast<std::uint64_t>(now) * kEventsPerMs) {
  for (const Layout& layout : restored.layouts) layouts_.intern(layout);
  handed_layouts_ = stored_layouts_ = layouts_.size();
  next_attempt_id_ = restored.last_deleted_attempt + 1;
  for (RunRow& row : restored.runs) {
    next_run_ = std::max(next_run_, row.id + 1);
    run_by_name_.emplace(row.name, row.id);
    runs_[row.id].row = std::move(row);
  }
  std::map<AttemptId, Attempt*> attempts;
  for (const AttemptRow& row : restored.attempts) {
    next_attempt_id_ = std::max(next_attempt_id_, row.id + 1);
    auto attempt = std::make_unique<Attempt>(row, options_, layouts_, archive_, events_);
    attempts.emplace(row.id, attempt.get());
    runs_.at(row.run).attempts.emplace(row.attempt, std::move(attempt));
  }
  for (const auto& [id, stages] : restored.stages)
    for (const Stage& stage : stages) attempts.at(id)->restore_stage(stage);
  for (const auto& [id, counts] : restored.steps_by_state) attempts.at(id)->restore_counts(counts);
  for (const RankRow& row : restored.ranks) attempts.at(row.attempt)->restore_rank(row);
  for (SourceRow& row : restored.sources) restore_source(std::move(row), now);
  for (const auto& [id, point] : restored.steps) attempts.at(id)->restore_step(point, now);
  std::size_t cells = kLiveCells;
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt)
    attempt->second->restored(cells);
}

void Collector::restore_source(SourceRow row, UnixMs now) {
  next_source_ = std::max(next_source_, row.key + 1);
  source_by_id_.emplace(row.id, row.key);
  Run& run = runs_.at(row.run);
  run.sources[row.rank].push_back(row.key);
  if (!row.lost.empty()) run.lossy.insert(row.key);
  if (const auto it = run.attempts.find(row.attempt); it != run.attempts.end()) {
    it->second->counts() += row.counts;
    // Its agent may only not have come back yet: it has the usual time to be heard.
    if (!row.gone) it->second->source_changed(row.rank, row.host, true, false, now);
  }
  Source& source = sources_[row.key];
  source.received_seq = row.committed_seq;
  source.told = {row.key, row.committed_seq, row.attempt_offset, row.counts};
  source.told_lost = row.lost;
  source.last_heard = now;
  source.live = !row.gone;
  source.resumed = row.attempt != 0;
  source.attempt_offset = row.attempt_offset;
  source.placed = row.attempt != 0;
  source.row = std::move(row);
}

// ---- views ----

std::shared_ptr<const Snapshot> Collector::snapshot(UnixMs now, const IngestCounters& counters,
                                                    const StorageState& storage) {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->taken_at = now;
  snapshot->storage = storage;
  snapshot->event = events_;
  snapshot->ingest = counters;
  std::uint64_t& over_limit = snapshot->ingest["stages_over_limit"];
  for (const auto& [name, id] : run_by_name_) {
    Run& run = runs_.at(id);
    snapshot->runs.push_back(view_of(run));
    for (const auto& [number, attempt] : run.attempts) over_limit += attempt->stages_over_limit();
  }
  return snapshot;
}

std::shared_ptr<const RunView> Collector::view_of(Run& run) const {
  const auto unchanged = [&] {
    if (run.view == nullptr || run.view->live_attempts.size() != run.attempts.size()) return false;
    return std::all_of(run.attempts.begin(), run.attempts.end(), [&](const auto& entry) {
      return run.view->live_attempts.at(entry.first) == entry.second->view();
    });
  };
  if (unchanged()) return run.view;
  auto view = std::make_shared<RunView>();
  view->id = run.row.id;
  view->name = run.row.name;
  view->closed = run.row.closed;
  for (const SourceKey key : run.lossy) {
    const Source& source = sources_.at(key);
    const std::uint64_t dropped = source.told.counts.dropped;
    if (view->losses.size() < limits::kMaxLossySources) {
      view->losses.push_back(
          {source.row.rank, source.row.host, source.row.origin, dropped, source.told_lost});
    } else {
      ++view->unlisted_losses.sources;
      view->unlisted_losses.dropped += dropped;
    }
  }
  for (const auto& [number, attempt] : run.attempts) {
    view->attempts.push_back(number);
    view->newest = attempt->view();
    view->live_attempts.emplace(number, view->newest);
  }
  run.view = view;
  return view;
}

}  // namespace laggard::core
