#include "daemon/serve/event_log.h"

#include <algorithm>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/serve/json.h"

namespace laggard::serve {
namespace {

/// The verdict when the step was first seen settled, over the newest steps then.
Json verdict_json(const core::AttemptView& attempt) {
  if (attempt.verdict == nullptr) return nullptr;
  return {{"kind", core::name_of(attempt.verdict->verdict.kind)}, {"sentence", attempt.verdict->sentence}};
}

std::string event_text(const core::RunView& run, const core::AttemptView& attempt,
                       const core::StepPoint& point) {
  const Json data = {{"run", run.name},
                     {"attempt", attempt.attempt},
                     {"step", point.step},
                     {"state", core::name_of(point.state)},
                     {"present", point.present},
                     {"expected", point.expected},
                     {"wall_max_ms", measured(point.wall_max_ms)},
                     {"slowest_rank", optional_json(point.slowest)},
                     {"near_tie", point.near_tie},
                     {"culprit_rank", optional_json(point.culprit)},
                     {"verdict", verdict_json(attempt)}};
  return "id: " + std::to_string(point.event) + "\nevent: step\ndata: " + dump(data) + "\n\n";
}

/// True when the run is the same object in both snapshots: nothing of it changed.
bool is_unchanged(const core::Snapshot* before, const std::shared_ptr<const core::RunView>& run) {
  if (before == nullptr) return false;
  const auto it = std::ranges::lower_bound(
      before->runs, run->name, {}, [](const auto& other) -> const std::string& { return other->name; });
  return it != before->runs.end() && *it == run;
}

}  // namespace

void EventLog::collect(const core::RunView& run, std::deque<Event>* found) const {
  for (const auto& [number, attempt] : run.live_attempts) {
    const std::size_t before = found->size();
    for (const core::StepPoint& point : attempt->history)
      if (point.event > newest_) found->push_back({point.event, run.name, event_text(run, *attempt, point)});
    // A history that is new from end to end may have lost steps between two snapshots.
    if (last_ != nullptr && found->size() - before == core::kHistoryPoints) {
      Event& first = *std::ranges::min_element(found->begin() + static_cast<std::ptrdiff_t>(before),
                                               found->end(), {}, &Event::number);
      first.text.insert(0, kGapEvent);
    }
  }
}

void EventLog::update(std::shared_ptr<const core::Snapshot> snapshot) {
  if (snapshot == nullptr || snapshot == last_) return;
  std::deque<Event> found;
  if (snapshot->event > newest_)
    for (const auto& run : snapshot->runs)
      if (!is_unchanged(last_.get(), run)) collect(*run, &found);
  std::ranges::sort(found, {}, &Event::number);
  for (Event& event : found) events_.push_back(std::move(event));
  while (events_.size() > limits::kMaxEventsRemembered) {
    forgotten_ = events_.front().number;
    events_.pop_front();
  }
  newest_ = std::max(newest_, snapshot->event);
  last_ = std::move(snapshot);
}

EventLog::Start EventLog::start(std::optional<std::uint64_t> after) const {
  if (!after.has_value()) return {.position = newest_};
  if (*after > newest_) return {.position = newest_, .gap = true};
  return {.position = *after};
}

EventLog::Batch EventLog::read(std::uint64_t position, const std::string& run, std::size_t max_bytes) const {
  Batch batch{.text = has_forgotten_after(position) ? kGapEvent : "", .position = position};
  auto it = std::ranges::upper_bound(events_, position, {}, &Event::number);
  for (; it != events_.end() && batch.text.size() < max_bytes; ++it) {
    batch.position = it->number;
    if (!run.empty() && it->run != run) continue;
    batch.text += it->text;
    ++batch.events;
  }
  return batch;
}

}  // namespace laggard::serve
