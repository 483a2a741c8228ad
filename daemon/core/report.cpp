#include "daemon/core/report.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <unordered_map>

#include "daemon/base/limits.h"
#include "daemon/base/settings.h"
#include "daemon/core/live_verdict.h"
#include "daemon/core/statistics.h"

namespace laggard::core {
namespace {

// Sums of counts that no int64 can hold stay at its end instead of wrapping round.
void add_saturated(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = value > 0 ? INT64_MAX : INT64_MIN;
}

// SplitMix64's finaliser (Steele, Lea, Flood 2014): spreads an index over 64 bits, so that the sum over a
// multiset names it whatever its order.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// What the report needs of one step.
struct StepFacts {
  Step step = 0;
  bool aside = false;
  std::vector<std::pair<Rank, double>> walls;  ///< every rank with a record; its wall as measured
  std::optional<double> slowest_wall;
  double max_own_ms = kAbsent, mean_own_ms = kAbsent;
  Clock own_clock = Clock::stream;
  std::array<std::vector<double>, 2> slowest_ms;  ///< by clock, by stage; kAbsent where it has none
  std::vector<double> culprit_ms;                 ///< by stage, on own_clock; of the median rank without one
  std::map<std::string, std::int64_t> counts;
  std::map<std::string, std::map<std::string, std::int64_t>> histograms;
  StepWork work;
  std::uint64_t invalid = 0;
};

/// The stage ids of a layout's names, looked up once.
struct LayoutStages {
  std::array<std::vector<StageId>, 2> ids;
};

/// One row of the stage table while it is summed up.
struct RowSum {
  std::vector<double> values;  // one a step, kAbsent where it cannot be known
  double sum = 0;
  std::uint64_t counted = 0, present = 0, overlaps = 0;
  explicit RowSum(std::size_t steps) : values(steps, kAbsent) {}
  void add(std::size_t step, double value, bool is_present) {
    values[step] = value;
    sum += value;
    ++counted;
    present += is_present ? 1U : 0U;
    overlaps += value < 0 ? 1U : 0U;
  }
};

const std::vector<std::string>& match_counts_of(const Profile& profile) {
  static const std::vector<std::string> kUsual{"samples", "frames", "valid_tokens", "supervised_tokens"};
  return profile.match_counts.empty() ? kUsual : profile.match_counts;
}

}  // namespace

double slowdown_of(double wall_ms, double max_own_ms, double mean_own_ms) {
  const double even_ms = wall_ms - (max_own_ms - mean_own_ms);
  return even_ms > 0 ? wall_ms / even_ms : kAbsent;
}

std::set<std::string> free_settings(const Profile& profile) {
  std::set<std::string> keys(profile.may_differ.begin(), profile.may_differ.end());
  keys.insert({"type", "rank", "local_rank", "host", "topology", "run", "attempt", "started_unix_ms",
               "launch_id", "laggard_job"});
  return keys;
}

struct ReportBuilder::State {
  RunFacts run;
  StageTable stages;
  const LayoutTable& layouts;
  Profile profile;
  Window asked;
  std::vector<std::pair<Rank, Settings>> settings;
  std::optional<Step> configured_from, configured_to;
  std::unordered_map<const Layout*, LayoutStages> layout_stages;
  std::vector<StepFacts> steps;   // in the window, as far as known
  std::vector<double> all_walls;  // slowest wall of every step
  std::optional<VerdictWindow> judged;
  LeftOut left_out;

  State(RunFacts f, const StageTable& s, const LayoutTable& l, const Profile& p, Window w, Judged j)
      : run(std::move(f)), stages(s), layouts(l), profile(p), asked(w) {
    if (j == Judged::yes)
      judged.emplace(
          VerdictWindow::Size{.judged = 0, .recent = kLiveStepsRecent, .kept = 0, .cells = kJudgedCells});
    for (const auto& [child, parent] : profile.parents) {
      const StageId child_id = stages.intern(child), parent_id = stages.intern(parent);
      if (child_id != kNoStage && parent_id != kNoStage)
        stages.set_parent(child_id, parent_id, Knowledge::profile);
    }
    for (const auto& [name, kind] : profile.kinds) {
      const StageId id = stages.intern(name);
      if (const auto known = stage_kind_of(kind); known.has_value() && id != kNoStage)
        stages.set_kind(id, *known, Knowledge::profile);
    }
    for (const auto& [rank, json] : run.settings) {
      settings.emplace_back(rank, parse_settings(json));
      if (!configured_from) configured_from = settings.back().second.first_step;
      if (!configured_to) configured_to = settings.back().second.last_step;
    }
  }

  bool is_configured() const { return configured_from.has_value() || configured_to.has_value(); }
  bool is_asked() const { return asked.from.has_value() || asked.to.has_value(); }
  std::optional<Step> from() const { return asked.from.has_value() ? asked.from : configured_from; }
  std::optional<Step> to() const { return asked.to.has_value() ? asked.to : configured_to; }

  const LayoutStages& stages_of(const Layout& layout);
  bool has_aside_stage(const RecordView& record);
  StepFacts read(const StepRecords& records);
  void read_slowest(StepFacts& facts, const RecordView& record);
  void read_culprit(StepFacts& facts, const StepBreakdown& step) const;
  void drop_warm_up(RunReport& report);
  void choose_steps(RunReport& report);
  void sum_walls(RunReport& report) const;
  void sum_own(RunReport& report) const;
  void sum_stages(RunReport& report) const;
  void sum_culprits(RunReport& report) const;
  void sum_counts(RunReport& report) const;
  void compare_settings(RunReport& report) const;
  void judge(RunReport& report) const;
  void drop_judged(Step step) {
    if (judged.has_value()) judged->drop(step);
  }
  void order_rows(std::vector<StageRow>& rows) const;
  std::string exclusive_name_of(const std::string& parent) const;
};

const LayoutStages& ReportBuilder::State::stages_of(const Layout& layout) {
  const auto [it, is_new] = layout_stages.try_emplace(&layout);
  if (is_new) {
    for (const std::string& name : layout.stream) it->second.ids[0].push_back(stages.intern(name));
    for (const std::string& name : layout.host) it->second.ids[1].push_back(stages.intern(name));
  }
  return it->second;
}

bool ReportBuilder::State::has_aside_stage(const RecordView& record) {
  const LayoutStages& known = stages_of(*record.layout);
  const auto any_aside = [&](const std::vector<StageId>& ids, std::span<const double> times) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] != kNoStage && stages[ids[i]].kind == StageKind::aside && is_valid(times[i]) && times[i] > 0)
        return true;
    return false;
  };
  return any_aside(known.ids[0], record.stream_ms()) || any_aside(known.ids[1], record.host_ms());
}

StepFacts ReportBuilder::State::read(const StepRecords& records) {
  StepFacts facts;
  facts.step = facts.work.step = records.step();
  const RecordView* slowest = nullptr;
  const std::vector<RecordView> views = records.by_rank(layouts);
  for (const RecordView& record : views) {
    const double wall = record.wall_ms();
    facts.walls.emplace_back(record.rank, wall);
    if (is_valid(wall) && (slowest == nullptr || wall > slowest->wall_ms())) slowest = &record;
    facts.invalid += count_invalid(record);
    const auto counts = record.counts();
    for (std::size_t i = 0; i < counts.size(); ++i)
      add_saturated(facts.counts[record.layout->counts[i]], counts[i]);
    facts.work.sample_count += record.sample_indices.size();
    for (const std::int64_t index : record.sample_indices)
      facts.work.sample_hash += mix(static_cast<std::uint64_t>(index));
    facts.aside = facts.aside || has_aside_stage(record);
    if (record.rest == nullptr) continue;
    facts.aside = facts.aside || !record.rest->tags.empty();
    for (const Histogram& histogram : record.rest->histograms)
      for (const auto& [key, count] : histogram.bins)
        add_saturated(facts.histograms[histogram.name][key], count);
  }
  for (const std::string& name : match_counts_of(profile))
    if (const auto it = facts.counts.find(name); it != facts.counts.end()) facts.work.counts.insert(*it);
  if (slowest != nullptr) read_slowest(facts, *slowest);
  return facts;
}

void ReportBuilder::State::read_slowest(StepFacts& facts, const RecordView& record) {
  facts.slowest_wall = record.wall_ms();
  const LayoutStages& known = stages_of(*record.layout);
  for (const std::size_t clock : {0U, 1U}) {
    facts.slowest_ms[clock].assign(stages.size(), kAbsent);
    const auto times = clock == 0 ? record.stream_ms() : record.host_ms();
    for (std::size_t i = 0; i < times.size(); ++i)
      if (known.ids[clock][i] != kNoStage) facts.slowest_ms[clock][known.ids[clock][i]] = times[i];
  }
}

void ReportBuilder::State::read_culprit(StepFacts& facts, const StepBreakdown& step) const {
  facts.culprit_ms.assign(stages.size(), 0);  // a stage that it does not have took none of its time
  for (const StageBreakdown& stage : step.stages) {
    const double ms = step.culprit.has_value() ? stage.culprit_ms : stage.spread.median;
    if (stage.clock == step.clock && is_valid(ms)) facts.culprit_ms[stage.stage] = ms;
  }
}

ReportBuilder::ReportBuilder(RunFacts facts, const StageTable& stages, const LayoutTable& layouts,
                             const Profile& profile, Window asked, Judged judged)
    : state_(std::make_unique<State>(std::move(facts), stages, layouts, profile, asked, judged)) {}
ReportBuilder::~ReportBuilder() = default;
ReportBuilder::ReportBuilder(ReportBuilder&&) noexcept = default;

void ReportBuilder::add(const StepRecords& records) {
  State& s = *state_;
  StepFacts facts = s.read(records);
  if (facts.slowest_wall.has_value()) s.all_walls.push_back(*facts.slowest_wall);
  if (s.from().has_value() && facts.step < *s.from())
    ++s.left_out.before;
  else if (s.to().has_value() && facts.step > *s.to())
    ++s.left_out.after;
  else {
    // A breakdown is work: only of steps that may be in the window.
    const StepBreakdown step = break_down(records, s.layouts, s.stages);
    facts.max_own_ms = step.own.max;
    facts.mean_own_ms = step.own.mean;
    facts.own_clock = step.clock;
    s.read_culprit(facts, step);
    if (s.judged.has_value() && !facts.aside) s.judged->put(own_of(step));
    s.steps.push_back(std::move(facts));
  }
}

void ReportBuilder::State::drop_warm_up(RunReport& report) {
  if (is_asked() || is_configured()) {
    report.window_from = is_asked() ? "asked" : "configured";
    report.from = from();
    report.to = to();
  } else if (steps.size() <= kWarmUpSteps) {
    report.window_from = "all steps: there are " + std::to_string(kWarmUpSteps) + " or fewer";
  } else {
    report.window_from = "all but the first " + std::to_string(kWarmUpSteps);
    const auto first = steps.begin() + kWarmUpSteps;
    std::for_each(steps.begin(), first, [&](const StepFacts& facts) { drop_judged(facts.step); });
    steps.erase(steps.begin(), first);
    left_out.before = kWarmUpSteps;
  }
  if (!report.from.has_value() && !steps.empty()) report.from = steps.front().step;
  if (!report.to.has_value() && !steps.empty()) report.to = steps.back().step;
}

// Keeps the steps that the figures are over and lists the others.
void ReportBuilder::State::choose_steps(RunReport& report) {
  std::set<Rank> ranks;
  for (const StepFacts& facts : steps)
    for (const auto& [rank, wall] : facts.walls) ranks.insert(rank);
  report.ranks.assign(ranks.begin(), ranks.end());

  std::erase_if(steps, [&](const StepFacts& facts) {
    if (facts.aside) {
      left_out.aside.push_back(facts.step);
      drop_judged(facts.step);
    } else if (facts.walls.size() != ranks.size()) {
      // No figure can do without a rank; a verdict can, since it counts what each of the others did.
      left_out.incomplete.push_back(facts.step);
      if (judged.has_value()) judged->set_partial(facts.step);
    } else if (!facts.slowest_wall.has_value()) {
      left_out.no_wall.push_back(facts.step);
    } else {
      return false;
    }
    return true;
  });
  report.steps = steps.size();
}

void ReportBuilder::State::sum_walls(RunReport& report) const {
  std::vector<double> slowest;
  std::map<Rank, std::pair<double, std::uint64_t>> by_rank;
  for (const StepFacts& facts : steps) {
    slowest.push_back(*facts.slowest_wall);
    for (const auto& [rank, wall] : facts.walls) {
      auto& [sum, n] = by_rank[rank];
      if (!is_valid(wall)) continue;
      sum += wall;
      ++n;
    }
  }
  report.max_rank_wall_ms = mean_of(slowest);
  report.wall_blocks = block_figures(slowest);
  report.median_wall_ms = median_of(slowest);
  for (const auto& [rank, entry] : by_rank) {
    const auto& [sum, n] = entry;
    const double mean = n == 0 ? kAbsent : sum / static_cast<double>(n);
    report.rank_walls.push_back({rank, mean, n});
    if (is_valid(mean) && !(report.largest_rank_mean_ms >= mean)) report.largest_rank_mean_ms = mean;
  }
  if (report.global_batch.has_value() && is_valid(report.max_rank_wall_ms) && report.max_rank_wall_ms > 0)
    report.samples_per_s = *report.global_batch / (report.max_rank_wall_ms / 1000);
}

void ReportBuilder::State::sum_own(RunReport& report) const {
  std::vector<double> largest, mean, of_all_largest, of_all_mean;
  bool one_clock = true;
  for (const StepFacts& facts : steps) {
    of_all_largest.push_back(facts.max_own_ms);
    of_all_mean.push_back(facts.mean_own_ms);
    if (!is_valid(facts.max_own_ms) || !is_valid(facts.mean_own_ms)) continue;
    one_clock = one_clock && (largest.empty() || report.own_clock == facts.own_clock);
    report.own_clock = facts.own_clock;
    largest.push_back(facts.max_own_ms);
    mean.push_back(facts.mean_own_ms);
  }
  if (!one_clock) report.own_clock.reset();
  report.max_own_ms = mean_of(largest);
  report.mean_own_ms = mean_of(mean);
  report.max_own_blocks = block_figures(of_all_largest);
  report.mean_own_blocks = block_figures(of_all_mean);
  report.slowdown = slowdown_of(report.max_rank_wall_ms, report.max_own_ms, report.mean_own_ms);
}

std::string ReportBuilder::State::exclusive_name_of(const std::string& parent) const {
  const auto it = profile.exclusive_names.find(parent);
  return it == profile.exclusive_names.end() ? exclusive_name(parent) : it->second;
}

void ReportBuilder::State::sum_stages(RunReport& report) const {
  const auto time_at = [](const std::vector<double>& times, StageId stage) {
    return stage < times.size() ? times[stage] : kAbsent;
  };
  const auto row_of = [&](StageId stage, Clock clock, bool exclusive, const RowSum& sum) {
    const Stage& entry = stages[stage];
    StageRow row{.name = exclusive ? exclusive_name_of(entry.name) : entry.name,
                 .depth = stages.depth(stage) + (exclusive ? 1 : 0),
                 .kind = entry.kind,
                 .exclusive = exclusive,
                 .clock = clock,
                 .present = sum.present,
                 .overlaps = exclusive ? sum.overlaps : 0,
                 .blocks = block_figures(sum.values)};
    if (exclusive)
      row.parent = entry.name;
    else if (entry.parent != kNoStage)
      row.parent = stages[entry.parent].name;
    if (sum.counted > 0) row.mean_ms = sum.sum / static_cast<double>(sum.counted);
    return row;
  };
  const auto children_of = [&](StageId parent) {
    std::vector<StageId> children;
    for (StageId stage = 0; stage < stages.size(); ++stage)
      if (stages[stage].parent == parent) children.push_back(stage);
    return children;
  };
  for (const Clock clock : {Clock::stream, Clock::host}) {
    for (const StageId stage : stages.tree_order()) {
      const std::vector<StageId> children = children_of(stage);
      RowSum whole(steps.size()), rest(steps.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto& times = steps[i].slowest_ms[static_cast<std::size_t>(clock)];
        const double time = time_at(times, stage);
        const bool absent = state_of(time) == ValueState::absent;
        if (!absent && !is_valid(time)) continue;
        whole.add(i, absent ? 0 : time, !absent);
        double exclusive = absent ? 0 : time;
        bool known = true;
        for (const StageId child : children) {
          const double inside = time_at(times, child);
          if (absent || state_of(inside) == ValueState::absent) continue;
          known = known && is_valid(inside);
          exclusive -= inside;
        }
        if (known) rest.add(i, exclusive, !absent);
      }
      if (whole.present == 0) continue;
      report.stages.push_back(row_of(stage, clock, false, whole));
      if (!children.empty()) report.stages.push_back(row_of(stage, clock, true, rest));
    }
  }
  order_rows(report.stages);
}

// The profile's rows first and in its order; the others follow as they nest.
void ReportBuilder::State::order_rows(std::vector<StageRow>& rows) const {
  const auto place = [&](const StageRow& row) {
    return std::find(profile.stage_order.begin(), profile.stage_order.end(), row.name) -
           profile.stage_order.begin();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const StageRow& a, const StageRow& b) {
    return std::pair(a.clock, place(a)) < std::pair(b.clock, place(b));
  });
}

void ReportBuilder::State::sum_culprits(RunReport& report) const {
  if (!report.own_clock.has_value()) return;
  for (const StageId stage : stages.tree_order()) {
    std::vector<double> values;
    for (const StepFacts& facts : steps)
      if (stage < facts.culprit_ms.size()) values.push_back(facts.culprit_ms[stage]);
    report.culprit_stages.push_back({stages[stage].name, stages[stage].kind, mean_of(values)});
  }
}

void ReportBuilder::State::sum_counts(RunReport& report) const {
  for (const StepFacts& facts : steps) {
    for (const auto& [name, count] : facts.counts) add_saturated(report.count_sums[name], count);
    for (const auto& [name, bins] : facts.histograms)
      for (const auto& [key, count] : bins) add_saturated(report.histograms[name][key], count);
    report.work.push_back(facts.work);
    report.invalid_values += facts.invalid;
  }
  for (const Ratio& ratio : profile.ratios) {
    RatioRow row{.name = ratio.name};
    const auto numerator = report.count_sums.find(ratio.numerator);
    const auto denominator = report.count_sums.find(ratio.denominator);
    if (numerator != report.count_sums.end() && denominator != report.count_sums.end() &&
        denominator->second != 0) {
      const double share = static_cast<double>(numerator->second) / static_cast<double>(denominator->second);
      row.percent = 100 * (ratio.complement ? 1 - share : share);
    }
    report.ratios.push_back(row);
  }
}

void ReportBuilder::State::compare_settings(RunReport& report) const {
  if (run.settings.empty()) return;
  report.settings = run.settings.front().second;
  const std::set<std::string> free = free_settings(profile);
  const Settings& first = settings.front().second;
  for (const auto& [rank, other] : settings) {
    for (const auto& [key, value] : other.all) {
      const auto it = first.all.find(key);
      if (!free.contains(key) && (it == first.all.end() || it->second != value))
        report.settings_disagree[key].push_back(rank);
    }
    if (!report.global_batch.has_value()) report.global_batch = other.global_batch;
    if (const auto sentence = contradiction(other);
        sentence.has_value() &&
        std::find(report.warnings.begin(), report.warnings.end(), *sentence) == report.warnings.end())
      report.warnings.push_back(*sentence);
  }
}

void ReportBuilder::State::judge(RunReport& report) const {
  if (!judged.has_value()) return;
  std::vector<Placement::Place> places;
  for (const auto& [rank, of_rank] : settings) {
    const auto host = run.agent_hosts.find(rank);
    places.push_back(place_of(rank, of_rank, host == run.agent_hosts.end() ? "" : host->second));
  }
  const Placement placement(places);
  Verdict& verdict = report.verdict.verdict;
  verdict = judged->judge(placement);
  report.verdict.sentence = sentence_of(verdict, stages, placement);
}

RunReport ReportBuilder::finish() {
  State& s = *state_;
  RunReport report{.run = s.run.run, .attempt = s.run.attempt, .world_size = s.run.world_size};
  s.compare_settings(report);
  s.drop_warm_up(report);
  s.choose_steps(report);
  s.sum_walls(report);
  s.sum_own(report);
  s.sum_stages(report);
  s.sum_culprits(report);
  s.sum_counts(report);
  s.judge(report);
  report.stage_table = s.stages;
  report.all_steps_mean_ms = mean_of(s.all_walls);
  report.all_steps_total_ms = std::accumulate(s.all_walls.begin(), s.all_walls.end(), 0.0);
  report.all_steps_median_ms = median_of(s.all_walls);
  report.left_out = std::move(s.left_out);
  for (Rank rank = 0;
       rank < s.run.world_size && report.never_reported.size() < limits::kMaxNeverReportedListed; ++rank)
    if (!std::binary_search(s.run.known_ranks.begin(), s.run.known_ranks.end(), rank))
      report.never_reported.push_back(rank);
  return report;
}

}  // namespace laggard::core
