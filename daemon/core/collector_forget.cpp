// Collector: what it lets go. Steps that retention takes, runs that are deleted, sources that are over.
#include <algorithm>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/core/collector.h"

namespace laggard::core {

bool Collector::expire(const Expiry& expiry) {
  for (auto& [id, run] : runs_)
    for (auto& [number, attempt] : run.attempts)
      if (attempt->row().id == expiry.attempt) return attempt->expire(expiry);
  return false;
}

bool Collector::is_live(const Run& run) const {
  return std::any_of(run.sources.begin(), run.sources.end(), [&](const auto& of_rank) {
    return std::any_of(of_rank.second.begin(), of_rank.second.end(),
                       [&](SourceKey key) { return sources_.at(key).live; });
  });
}

Collector::Deleted Collector::delete_run(const std::string& name) {
  const auto it = run_by_name_.find(name);
  if (it == run_by_name_.end()) return Deleted::no_such_run;
  const RunId id = it->second;
  const Run& run = runs_.at(id);
  if (is_live(run)) return Deleted::still_fed;
  for (const auto& [rank, keys] : run.sources)
    for (const SourceKey key : keys) {
      source_by_id_.erase(sources_.at(key).row.id);
      sources_.erase(key);
    }
  run_by_name_.erase(it);
  runs_.erase(id);
  deleted_.runs.push_back(id);
  return Deleted::deleted;
}

std::optional<std::string> Collector::delete_run_unless_fed(RunId id, UnixMs before) {
  const auto it = runs_.find(id);
  if (it == runs_.end()) return std::nullopt;
  for (const auto& [number, attempt] : it->second.attempts)
    if (attempt->row().last_received >= before) return std::nullopt;
  std::string name = it->second.row.name;
  return delete_run(name) == Deleted::deleted ? std::optional(std::move(name)) : std::nullopt;
}

// Each start of an agent is a source of its own. Those that are over and sent nothing go first; what another
// one delivered and lost is counted with one that stays. All that is forgotten is how its file was numbered.
void Collector::forget_oldest_source(Run& run, Rank rank) {
  std::vector<SourceKey>& keys = run.sources[rank];
  if (keys.size() < limits::kMaxSourcesPerRank) return;
  const auto is_over = [&](SourceKey key) {
    const Source& source = sources_.at(key);
    return !source.live && !source.dirty && !source.handed_out && source.outcomes.empty();
  };
  const auto delivered = [&](SourceKey key) { return is_over(key) && sources_.at(key).row.attempt != 0; };
  auto goes = std::find_if(keys.begin(), keys.end(),
                           [&](SourceKey key) { return is_over(key) && sources_.at(key).row.attempt == 0; });
  if (goes == keys.end()) {
    goes = std::find_if(keys.begin(), keys.end(), delivered);
    const auto heir = goes == keys.end() ? goes : std::find_if(goes + 1, keys.end(), delivered);
    if (heir == keys.end()) return;
    inherit(sources_.at(*goes), sources_.at(*heir));
  }
  deleted_.sources.push_back(*goes);
  source_by_id_.erase(sources_.at(*goes).row.id);
  sources_.erase(*goes);
  run.lossy.erase(*goes);
  run.view.reset();
  keys.erase(goes);
}

// Both are over, with nothing on its way to the database: what is durable of the one is told as the other's.
void Collector::inherit(const Source& from, Source& to) {
  to.row.counts += from.row.counts;
  to.told.counts += from.row.counts;
  to.dirty = true;
  if (from.row.lost.empty()) return;
  to.row.lost.insert(to.row.lost.begin(), from.row.lost.begin(), from.row.lost.end());
  if (to.row.lost.size() > limits::kMaxLostRanges)
    to.row.lost.erase(to.row.lost.begin(),
                      to.row.lost.end() - static_cast<std::ptrdiff_t>(limits::kMaxLostRanges));
  to.handed_lost = to.row.lost;
  show_losses(to);
}

}  // namespace laggard::core
