#include "daemon/core/live_verdict.h"

namespace laggard::core {

Placement::Place place_of(Rank rank, const Settings& settings, const std::string& agent_host) {
  return {rank, settings.host.empty() ? agent_host : settings.host, settings.topology};
}

void LiveVerdict::learn(Rank rank, const Settings& settings, const std::string& agent_host) {
  places_[rank] = place_of(rank, settings, agent_host);
  placement_.reset();
  if (!rests_after_.has_value()) view_.reset();
  if (settings.first_step.has_value()) first_step_ = settings.first_step;
  if (settings.last_step.has_value()) last_step_ = settings.last_step;
}

bool LiveVerdict::in_window(Step step) const {
  return step >= first_step_.value_or(step) && step <= last_step_.value_or(step);
}

void LiveVerdict::put(const StepView& view) {
  const Step step = view.breakdown.step;
  if (!in_window(step) || (rests_after_.has_value() && step <= *rests_after_)) return;
  view_.reset();
  if (!first_step_.has_value() && !last_step_.has_value()) warm_up(step);
  aside_ = view.breakdown.aside ? std::optional(step) : std::nullopt;
  if (view.breakdown.aside || (warm_ && warm_up_.contains(step))) return drop(step);
  was_over_ = false;
  rests_after_.reset();
  StepOwn own = own_of(view.breakdown);
  own.partial = view.state == StepState::partial;
  window_.put(own);
}

void LiveVerdict::warm_up(Step step) {
  if (warm_) return;
  if (before_ + warm_up_.size() < kWarmUpSteps || warm_up_.contains(step)) {
    warm_up_.insert(step);
    return;
  }
  // Until now the first steps were all there was to judge by.
  for (const Step early : warm_up_) window_.drop(early);
  warm_ = true;
}

void LiveVerdict::drop(Step step) {
  if (rests_after_.has_value()) return;
  view_.reset();
  window_.drop(step);
}

void LiveVerdict::clear() {
  if (rests_after_.has_value()) return;
  view_.reset();
  window_ = VerdictWindow(kLiveWindow);
}

void LiveVerdict::rest(const StageTable& stages) {
  const auto newest = window_.newest();
  if (!newest.has_value()) return;
  view(stages);
  window_ = VerdictWindow(kLiveWindow);
  rests_after_ = newest;
}

std::string LiveVerdict::sentence(const Verdict& verdict, const StageTable& stages) const {
  if (was_over_)
    return "no verdict kept: the run was over when this collector started; laggard verdict makes it from "
           "what "
           "is stored";
  if (window_.size() == 0 && aside_.has_value())
    return "no verdict yet: the steps up to " + std::to_string(*aside_) +
           " are aside, by a tag (an exception has one) or by a checkpoint, an evaluation or logging among "
           "their stages";
  return sentence_of(verdict, stages, *placement_);
}

std::shared_ptr<const VerdictView> LiveVerdict::view(const StageTable& stages) {
  if (view_ != nullptr) return view_;
  if (!placement_.has_value()) {
    std::vector<Placement::Place> places;
    for (const auto& [rank, place] : places_) places.push_back(place);
    placement_.emplace(places);
  }
  auto view = std::make_shared<VerdictView>();
  view->verdict = window_.judge(*placement_);
  view->sentence = sentence(view->verdict, stages);
  view_ = view;
  return view_;
}

}  // namespace laggard::core
