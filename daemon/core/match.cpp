// The match check of core/report.h: did all the runs do the same work?
#include <algorithm>
#include <set>

#include "daemon/base/settings.h"
#include "daemon/core/report.h"

namespace laggard::core {
namespace {

std::string at_steps(const std::vector<Step>& steps) {
  std::string text = "step " + std::to_string(steps.front());
  if (steps.size() > 1) text += " (and " + std::to_string(steps.size() - 1) + " more)";
  return text;
}

const StepWork* find_step(const RunReport& report, Step step) {
  const auto it = std::lower_bound(report.work.begin(), report.work.end(), step,
                                   [](const StepWork& work, Step s) { return work.step < s; });
  return it != report.work.end() && it->step == step ? &*it : nullptr;
}

/// Compares one run with the first, and notes the first difference of each kind.
class WithFirst {
 public:
  WithFirst(const RunReport& base, const RunReport& other, Match& match)
      : base_(base), other_(other), match_(match) {
    if (base.run != other.run) return;
    mine_ += "@" + std::to_string(base.attempt);
    theirs_ += "@" + std::to_string(other.attempt);
  }

  void steps() {
    std::vector<Step> only_one;
    for (const StepWork& work : base_.work)
      if (find_step(other_, work.step) == nullptr) only_one.push_back(work.step);
    for (const StepWork& work : other_.work)
      if (find_step(base_, work.step) == nullptr) only_one.push_back(work.step);
    if (only_one.empty()) return;
    std::sort(only_one.begin(), only_one.end());
    note("steps", at_steps(only_one) + ": counted in only one of " + names());
  }

  void samples() {
    std::vector<Step> differ;
    for (const StepWork& work : base_.work) {
      const StepWork* theirs = find_step(other_, work.step);
      if (theirs != nullptr &&
          (theirs->sample_hash != work.sample_hash || theirs->sample_count != work.sample_count))
        differ.push_back(work.step);
    }
    if (!differ.empty()) note("sample indices", at_steps(differ) + ": " + names() + " differ");
  }

  void count(const std::string& name) {
    std::vector<Step> differ;
    std::string values;
    for (const StepWork& work : base_.work) {
      const StepWork* theirs = find_step(other_, work.step);
      if (theirs == nullptr) continue;
      const auto mine = work.counts.find(name), other = theirs->counts.find(name);
      const bool has_mine = mine != work.counts.end(), has_other = other != theirs->counts.end();
      if (has_mine == has_other && (!has_mine || mine->second == other->second)) continue;
      if (differ.empty())
        values = mine_ + " " + (has_mine ? std::to_string(mine->second) : "absent") + ", " + theirs_ + " " +
                 (has_other ? std::to_string(other->second) : "absent");
      differ.push_back(work.step);
    }
    if (!differ.empty()) note(name, at_steps(differ) + ": " + values);
  }

  void settings(const std::set<std::string>& free) {
    const Settings mine = parse_settings(base_.settings), theirs = parse_settings(other_.settings);
    std::set<std::string> keys;
    for (const auto& [key, value] : mine.all) keys.insert(key);
    for (const auto& [key, value] : theirs.all) keys.insert(key);
    const auto value_in = [](const Settings& settings, const std::string& key) {
      const auto it = settings.all.find(key);
      return it == settings.all.end() ? std::string("absent") : it->second;
    };
    for (const std::string& key : keys) {
      const std::string a = value_in(mine, key), b = value_in(theirs, key);
      if (!free.contains(key) && a != b) note("setting " + key, mine_ + " " + a + ", " + theirs_ + " " + b);
    }
  }

  void shape() {
    if (base_.world_size != other_.world_size)
      note("world size", mine_ + " " + std::to_string(base_.world_size) + ", " + theirs_ + " " +
                             std::to_string(other_.world_size));
    if (base_.ranks != other_.ranks)
      note("ranks", mine_ + " has " + std::to_string(base_.ranks.size()) + " reporting ranks, " + theirs_ +
                        " " + std::to_string(other_.ranks.size()));
  }

 private:
  std::string names() const { return mine_ + " and " + theirs_; }
  void note(std::string what, std::string where) {
    match_.mismatches.push_back({std::move(what), std::move(where)});
  }

  const RunReport& base_;
  const RunReport& other_;
  Match& match_;
  std::string mine_ = base_.run, theirs_ = other_.run;  // with the attempt where the run is the same
};

}  // namespace

Match match_runs(const std::vector<const RunReport*>& reports, const Profile& profile) {
  Match match;
  if (reports.size() < 2) return match;
  match.checked = true;
  const bool any_samples = std::any_of(reports.begin(), reports.end(), [](const RunReport* report) {
    return std::any_of(report->work.begin(), report->work.end(),
                       [](const StepWork& work) { return work.sample_count > 0; });
  });
  std::set<std::string> counts;
  for (const RunReport* report : reports)
    for (const StepWork& work : report->work)
      for (const auto& [name, sum] : work.counts) counts.insert(name);

  match.compared = {"steps", "ranks"};
  const bool any_settings = std::any_of(reports.begin(), reports.end(),
                                        [](const RunReport* report) { return !report->settings.empty(); });
  if (any_settings) match.compared.emplace_back("settings");
  if (any_samples) match.compared.emplace_back("sample indices");
  match.compared.insert(match.compared.end(), counts.begin(), counts.end());
  for (std::size_t i = 1; i < reports.size(); ++i) {
    WithFirst pair(*reports[0], *reports[i], match);
    pair.shape();
    pair.steps();
    if (any_samples) pair.samples();
    for (const std::string& name : counts) pair.count(name);
    pair.settings(free_settings(profile));
  }
  for (const RunReport* report : reports)
    for (const auto& [key, ranks] : report->settings_disagree)
      match.mismatches.push_back({"setting " + key, "rank " + std::to_string(ranks.front()) + " of " +
                                                        report->run +
                                                        " says something else than its first rank"});
  const bool all_have_steps =
      std::all_of(reports.begin(), reports.end(), [](const RunReport* r) { return r->steps > 0; });
  if (!all_have_steps) match.mismatches.push_back({"steps", "a run has no step in its window"});
  match.pass = match.mismatches.empty();
  return match;
}

Match match_runs(const std::vector<RunReport>& reports, const Profile& profile) {
  std::vector<const RunReport*> pointers;
  pointers.reserve(reports.size());
  for (const RunReport& report : reports) pointers.push_back(&report);
  return match_runs(pointers, profile);
}

}  // namespace laggard::core
