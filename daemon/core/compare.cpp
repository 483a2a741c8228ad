#include "daemon/core/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "daemon/base/settings.h"

namespace laggard::core {
namespace {

using Runs = std::vector<ComparedRun>;

/// What a row is computed from, on one side: a figure for each run and, with one run, for each block.
struct SideFigures {
  std::vector<double> runs;
  BlockFigures blocks;
};

bool all_known(const std::vector<double>& values) {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

/// The mean of those that are known: what a side spent where it has the stage at all.
double mean_of_known(const std::vector<double>& values) {
  std::vector<double> known;
  std::copy_if(values.begin(), values.end(), std::back_inserter(known),
               [](double value) { return std::isfinite(value); });
  return mean_of(known);
}

/// Whether every new run differs from every base run the same way, and the sides by enough spreads.
Finding finding_of(const ComparedRow& row) {
  const std::vector<double>&base = row.base_runs, &newer = row.new_runs;
  if (base.size() < 2 || newer.size() < 2) return Finding::unknown;
  const auto [least_base, most_base] = std::minmax_element(base.begin(), base.end());
  const auto [least_new, most_new] = std::minmax_element(newer.begin(), newer.end());
  const bool apart = *least_new > *most_base || *most_new < *least_base;
  const bool two = std::min(base.size(), newer.size()) == 2;
  const bool clear = two || row.interval.leaves_out_zero();
  const double spreads = two ? kSpreadsOfTwo : kSpreads;
  return apart && clear && std::abs(row.difference) > spreads * row.spread ? Finding::beyond
                                                                           : Finding::inside;
}

void fill_from_runs(ComparedRow& row, bool comparable) {
  row.base = mean_of_known(row.base_runs);
  row.newer = mean_of_known(row.new_runs);
  if (!comparable || !all_known(row.base_runs) || !all_known(row.new_runs)) return;
  row.difference = row.newer - row.base;
  row.hodges_lehmann = hodges_lehmann(row.base_runs, row.new_runs);
  if (row.base_runs.size() + row.new_runs.size() < 3) return;
  row.interval = difference_interval(row.base_runs, row.new_runs);
  row.spread = pooled_deviation(row.base_runs, row.new_runs);
  row.finding = finding_of(row);
  if (smallest_rank_p(row.base_runs.size(), row.new_runs.size()) <= kSignificance)
    row.rank_p = exact_rank_p(row.base_runs, row.new_runs);
}

/// With one run a side: the figures of blocks instead, and an interval that holds noise within the runs
/// alone.
void fill_from_blocks(ComparedRow& row, const BlockFigures& base, const BlockFigures& newer, bool paired) {
  const bool medians = row.estimate == Estimate::block_medians;
  const std::vector<double>& from = medians ? base.medians : base.means;
  const std::vector<double>& to = medians ? newer.medians : newer.means;
  if (!all_known(from) || !all_known(to)) {
    row.estimate = Estimate::run_means;
    return;
  }
  row.base = mean_of(from);
  row.newer = mean_of(to);
  row.difference = row.newer - row.base;
  row.hodges_lehmann = kAbsent;
  row.interval = paired ? paired_interval(from, to) : difference_interval(from, to);
}

/// The blocks of a figure that is made of the blocks of others.
BlockFigures combined(const std::vector<const BlockFigures*>& parts,
                      const std::function<double(const std::vector<double>&)>& figure) {
  BlockFigures out;
  for (const auto kind : {&BlockFigures::medians, &BlockFigures::means}) {
    for (std::size_t block = 0; block < (parts.front()->*kind).size(); ++block) {
      std::vector<double> values;
      values.reserve(parts.size());
      for (const BlockFigures* part : parts)
        values.push_back(block < (part->*kind).size() ? (part->*kind)[block] : kAbsent);
      (out.*kind).push_back(figure(values));
    }
  }
  return out;
}

double figure_of(const RunReport& report, Figure figure) {
  switch (figure) {
    case Figure::max_rank_wall:
      return report.max_rank_wall_ms;
    case Figure::throughput:
      return report.samples_per_s;
    case Figure::max_own:
      return report.max_own_ms;
    case Figure::mean_own:
      return report.mean_own_ms;
    case Figure::slowdown:
      return report.slowdown;
    case Figure::stage:
      break;
  }
  return kAbsent;
}

BlockFigures blocks_of(const RunReport& report, Figure figure) {
  switch (figure) {
    case Figure::max_rank_wall:
      return report.wall_blocks;
    case Figure::throughput:
      if (!report.global_batch.has_value()) return {};
      return combined({&report.wall_blocks}, [&](const std::vector<double>& wall) {
        return wall[0] > 0 ? *report.global_batch / (wall[0] / 1000) : kAbsent;
      });
    case Figure::max_own:
      return report.max_own_blocks;
    case Figure::mean_own:
      return report.mean_own_blocks;
    case Figure::slowdown:
      return combined(
          {&report.wall_blocks, &report.max_own_blocks, &report.mean_own_blocks},
          [](const std::vector<double>& parts) { return slowdown_of(parts[0], parts[1], parts[2]); });
    case Figure::stage:
      break;
  }
  return {};
}

/// Makes the rows of one comparison.
class Rows {
 public:
  explicit Rows(Comparison& comparison)
      : comparison_(comparison),
        blocks_(comparison.base.size() == 1 && comparison.newer.size() == 1 && comparison.blocks_base > 0 &&
                comparison.blocks_new > 0) {}

  void add_figure(Figure figure) {
    ComparedRow row{.figure = figure};
    const auto read = [&](const Runs& runs) {
      SideFigures side;
      for (const ComparedRun& run : runs) side.runs.push_back(figure_of(run.report, figure));
      side.blocks = blocks_of(runs.front().report, figure);
      return side;
    };
    const bool is_own = figure == Figure::max_own || figure == Figure::mean_own || figure == Figure::slowdown;
    finish(std::move(row), read(comparison_.base), read(comparison_.newer), true,
           !(is_own && comparison_.own_clocks_differ));
  }

  void add_stages() {
    for (const StageRow& stage : stage_rows()) {
      ComparedRow row{.figure = Figure::stage,
                      .name = stage.name,
                      .parent = stage.parent,
                      .depth = stage.depth,
                      .exclusive = stage.exclusive,
                      .clock = stage.clock,
                      .kind = stage.kind};
      const SideFigures base = read_stage(comparison_.base, stage, row);
      const SideFigures newer = read_stage(comparison_.newer, stage, row);
      const bool in_every_step = row.present == row.of;
      finish(std::move(row), base, newer, in_every_step);
    }
  }

 private:
  void finish(ComparedRow row, const SideFigures& base, const SideFigures& newer, bool in_every_step,
              bool comparable = true) {
    row.base_runs = base.runs;
    row.new_runs = newer.runs;
    fill_from_runs(row, comparable);
    if (blocks_ && comparable) {
      row.estimate = in_every_step ? Estimate::block_medians : Estimate::block_means;
      fill_from_blocks(row, base.blocks, newer.blocks, comparison_.paired_blocks);
    }
    comparison_.rows.push_back(std::move(row));
  }

  static const StageRow* find(const RunReport& report, const StageRow& wanted) {
    for (const StageRow& row : report.stages)
      if (row.name == wanted.name && row.clock == wanted.clock && row.exclusive == wanted.exclusive)
        return &row;
    return nullptr;
  }

  static SideFigures read_stage(const Runs& runs, const StageRow& wanted, ComparedRow& row) {
    SideFigures side;
    for (const ComparedRun& run : runs) {
      const StageRow* stage = find(run.report, wanted);
      side.runs.push_back(stage != nullptr ? stage->mean_ms : kAbsent);
      row.of += run.report.steps;
      if (stage == nullptr) continue;
      row.present += stage->present;
      side.blocks = stage->blocks;
    }
    return side;
  }

  /// Each stage of any run once; one that only a later run has stands behind the row before it there.
  std::vector<StageRow> stage_rows() const {
    std::vector<StageRow> rows;
    for (const Runs* side : {&comparison_.base, &comparison_.newer}) {
      for (const ComparedRun& run : *side) {
        auto place = rows.begin();
        for (const StageRow& stage : run.report.stages) {
          const auto known = std::find_if(rows.begin(), rows.end(), [&](const StageRow& row) {
            return row.name == stage.name && row.clock == stage.clock && row.exclusive == stage.exclusive;
          });
          place = (known != rows.end() ? known : rows.insert(place, stage)) + 1;
        }
      }
    }
    return rows;
  }

  Comparison& comparison_;
  bool blocks_;
};

std::vector<double> known_figures(const Runs& runs,
                                  const std::function<std::optional<double>(const RunReport&)>& read) {
  std::vector<double> values;
  for (const ComparedRun& run : runs)
    if (const auto value = read(run.report); value.has_value() && std::isfinite(*value))
      values.push_back(*value);
  return values;
}

void add_counts(Comparison& comparison, const Profile& profile) {
  const auto add = [&](const std::string& name, bool percent, const auto& read) {
    comparison.counts.push_back({.name = name,
                                 .percent = percent,
                                 .base = mean_of(known_figures(comparison.base, read)),
                                 .newer = mean_of(known_figures(comparison.newer, read))});
  };
  for (std::size_t i = 0; i < profile.ratios.size(); ++i)
    add(profile.ratios[i].name, true,
        [i](const RunReport& report) { return std::optional(report.ratios[i].percent); });
  std::set<std::string> names;
  for (const Runs* side : {&comparison.base, &comparison.newer})
    for (const ComparedRun& run : *side)
      for (const auto& [name, sum] : run.report.count_sums) names.insert(name);
  for (const std::string& name : names) {
    add(name, false, [&name](const RunReport& report) -> std::optional<double> {
      const auto it = report.count_sums.find(name);
      if (it == report.count_sums.end()) return std::nullopt;
      return static_cast<double>(it->second);
    });
  }
}

Order order_of_runs(const Comparison& comparison) {
  std::vector<RunTime> times;
  for (const Runs* side : {&comparison.base, &comparison.newer}) {
    for (const ComparedRun& run : *side) {
      times.push_back({.newer = side == &comparison.newer,
                       .started = parse_settings(run.report.settings).started_unix_ms,
                       .first_received = run.first_received,
                       .last_received = run.last_received,
                       .walls_ms = run.report.all_steps_total_ms});
    }
  }
  return order_of(std::move(times));
}

bool has_stream_stage(const RunReport* report) {
  return std::ranges::any_of(report->stages, [](const StageRow& row) { return row.clock == Clock::stream; });
}

bool same_steps(const RunReport& base, const RunReport& newer) {
  return std::equal(base.work.begin(), base.work.end(), newer.work.begin(), newer.work.end(),
                    [](const StepWork& a, const StepWork& b) { return a.step == b.step; });
}

}  // namespace

Comparison compare_runs(Runs base, Runs newer, const Profile& profile) {
  Comparison comparison{.base = std::move(base), .newer = std::move(newer)};
  std::vector<const RunReport*> reports;
  for (const Runs* side : {&comparison.base, &comparison.newer})
    for (const ComparedRun& run : *side) reports.push_back(&run.report);
  comparison.match = match_runs(reports, profile);
  comparison.order = order_of_runs(comparison);
  comparison.smallest_rank_p = smallest_rank_p(comparison.base.size(), comparison.newer.size());
  if (!comparison.is_run_to_run_measured()) {
    const RunReport &from = comparison.base[0].report, &to = comparison.newer[0].report;
    comparison.blocks_base = block_count(from.steps);
    comparison.blocks_new = block_count(to.steps);
    comparison.paired_blocks = same_steps(from, to);
  }
  comparison.clock = std::ranges::all_of(reports, has_stream_stage) ? Clock::stream : Clock::host;
  comparison.own_clocks_differ = std::ranges::any_of(
      reports, [&](const RunReport* report) { return report->own_clock != reports.front()->own_clock; });
  Rows rows(comparison);
  for (const Figure figure :
       {Figure::max_rank_wall, Figure::throughput, Figure::max_own, Figure::mean_own, Figure::slowdown})
    rows.add_figure(figure);
  rows.add_stages();
  add_counts(comparison, profile);
  name_causes(comparison);
  return comparison;
}

std::string_view name_of(Estimate estimate) {
  switch (estimate) {
    case Estimate::run_means:
      return "run means";
    case Estimate::block_medians:
      return "block medians";
    case Estimate::block_means:
      return "block means";
  }
  return "?";
}

std::string_view name_of(Finding finding) {
  switch (finding) {
    case Finding::unknown:
      return "unknown";
    case Finding::inside:
      return "inside";
    case Finding::beyond:
      return "beyond";
  }
  return "?";
}

std::string_view name_of(Figure figure) {
  switch (figure) {
    case Figure::max_rank_wall:
      return "max_rank_wall";
    case Figure::throughput:
      return "throughput";
    case Figure::max_own:
      return "max_own";
    case Figure::mean_own:
      return "mean_own";
    case Figure::slowdown:
      return "slowdown";
    case Figure::stage:
      return "stage";
  }
  return "?";
}

}  // namespace laggard::core
