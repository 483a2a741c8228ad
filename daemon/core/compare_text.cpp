// What a comparison says in sentences.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "daemon/core/compare.h"

namespace laggard::core {
namespace {

// Of the wall's difference that a named stage has: it carries it, or adds a part; less is a little.
constexpr double kCarries = 0.5, kPart = 0.1;
constexpr std::size_t kNamesListed = 12;

std::string rounded(double value, int digits) {
  std::array<char, 400> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

std::string with_sign(double value, int digits) {
  const std::string text = rounded(value, digits);
  return text.front() == '-' ? text : "+" + text;
}

/// Milliseconds for steps of some seconds, more digits for shorter ones.
int digits_of(const Comparison& comparison) {
  int digits = 3;
  for (double wall_s = comparison.wall().base / 1000; wall_s < 1 && digits < 6; wall_s *= 10) ++digits;
  return digits;
}

std::string runs_text(std::size_t n) { return std::to_string(n) + (n == 1 ? " run" : " runs"); }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesListed); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kNamesListed) text += " and " + std::to_string(names.size() - kNamesListed) + " more";
  return text;
}

/// The interval in seconds, and in percent of the base.
std::string interval_text(const Comparison& comparison, int digits) {
  const ComparedRow& wall = comparison.wall();
  if (!wall.interval.is_known()) return "no interval";
  std::string text = "95 % interval " + with_sign(wall.interval.low / 1000, digits) + " to " +
                     with_sign(wall.interval.high / 1000, digits) + " s";
  if (wall.base > 0)
    text += ", " + with_sign(100 * wall.interval.low / wall.base, 1) + " to " +
            with_sign(100 * wall.interval.high / wall.base, 1) + " %";
  return text;
}

std::string wall_sentence(const Comparison& comparison, int digits) {
  const ComparedRow& wall = comparison.wall();
  if (!std::isfinite(wall.difference))
    return "The walls cannot be compared: a run has no step in its window.";
  if (wall.difference == 0)
    return "The walls are equal: " + rounded(wall.base / 1000, digits) + " s a step (" +
           interval_text(comparison, digits) + ").";
  const std::string percent =
      wall.base > 0 ? ", " + with_sign(100 * wall.difference / wall.base, 1) + " %" : "";
  const std::string figures = "by " + rounded(std::abs(wall.difference) / 1000, digits) + " s a step (" +
                              rounded(wall.base / 1000, digits) + " to " +
                              rounded(wall.newer / 1000, digits) + " s" + percent + "; " +
                              interval_text(comparison, digits) + ")";
  const std::string direction = wall.difference < 0 ? "faster " : "slower ";
  if (!wall.interval.is_known() || wall.interval.leaves_out_zero())
    return "New is " + direction + figures + ".";
  if (wall.finding == Finding::beyond)
    return "New is " + direction + "in every pairing of runs, " + figures +
           ": two runs on a side are too few for an interval that leaves out 0.";
  return "No difference that these runs can tell: new is " + direction + figures + ".";
}

/// The stages inside of a named one, which cancel each other out.
std::string inside_text(const Comparison& comparison, const ComparedRow& outer, int digits) {
  std::string text;
  for (const ComparedRow& row : comparison.rows) {
    const bool inside = row.figure == Figure::stage && row.clock == outer.clock && row.parent == outer.name;
    if (outer.exclusive || !inside || row.finding != Finding::beyond) continue;
    if (std::abs(row.difference) < std::abs(outer.difference) / 100) continue;
    text +=
        (text.empty() ? " (inside it: " : ", ") + row.name + " " + with_sign(row.difference / 1000, digits);
  }
  return text.empty() ? "" : text + ")";
}

std::string cause_text(const Comparison& comparison, const ComparedRow& row, int digits) {
  const double wall = comparison.wall().difference;
  const double share = row.difference / wall;
  std::string text = row.name + " ";
  if (share < 0)
    text += wall > 0 ? "got faster" : "got slower";
  else
    text += share >= kCarries ? "carries it" : share >= kPart ? "adds a part" : "adds a little";
  text += ": " + with_sign(row.difference / 1000, digits) + " s" + inside_text(comparison, row, digits);
  if (row.interval.is_known() && !row.interval.leaves_out_zero()) text += ", though its interval holds 0";
  if (row.kind == StageKind::sync) text += ", waiting for other ranks included";
  return text;
}

/// The mean over the runs of a side; kAbsent when one lacks the stage.
double culprit_mean(const std::vector<ComparedRun>& side, const std::string& stage) {
  double sum = 0;
  for (const ComparedRun& run : side) {
    const auto& stages = run.report.culprit_stages;
    const auto found = std::ranges::find(stages, stage, &CulpritStage::name);
    sum += found == stages.end() ? kAbsent : found->mean_ms;
  }
  return sum / static_cast<double>(side.size());
}

/// ", above all in forward, -0.0400 s there": of the stages of the ranks that the others wait for, the one
/// that changed most the way that their own time did; an inner one before the outer one that changed as much.
std::string changed_most(const Comparison& comparison, double own_difference, int digits) {
  constexpr double kAsMuch = 0.99;
  const CulpritStage* most = nullptr;
  double difference = 0;
  for (const CulpritStage& stage : comparison.base.front().report.culprit_stages) {
    const double moved =
        culprit_mean(comparison.newer, stage.name) - culprit_mean(comparison.base, stage.name);
    const bool same_way = moved * own_difference > 0 && stage.kind != StageKind::sync;
    if (!same_way || std::abs(moved) < kAsMuch * std::abs(difference)) continue;
    most = &stage;
    difference = moved;
  }
  if (most == nullptr || 2 * std::abs(difference) < std::abs(own_difference)) return "";
  return ", above all in " + most->name + ", " + with_sign(difference / 1000, digits) + " s there";
}

/// Ranks that wait for another one spend its time in a sync stage, and a step whose walls are equal is told
/// by the stages of any of them. So where sync stages are named, the change of the largest own time that no
/// other named stage explains is somebody's work. Empty when that is not what they waited for.
std::string waited_for(const Comparison& comparison, int digits) {
  const auto own = std::find_if(comparison.rows.begin(), comparison.rows.end(),
                                [](const ComparedRow& row) { return row.figure == Figure::max_own; });
  if (own == comparison.rows.end() || own->finding != Finding::beyond) return "";
  double in_sync = 0, left = own->difference;
  for (const std::size_t i : comparison.causes) {
    const ComparedRow& row = comparison.rows[i];
    if (row.kind == StageKind::sync)
      in_sync += row.difference;
    else
      left -= row.difference;
  }
  const double wall = comparison.wall().difference;
  const bool same_way = in_sync * wall > 0 && left * wall > 0 && own->difference * wall > 0;
  if (!same_way || std::abs(left) < kCarries * std::abs(in_sync)) return "";
  const bool is_slower = own->difference > 0;
  const RunReport& run = (is_slower ? comparison.newer : comparison.base).front().report;
  return "It is work that changed, not waiting: the largest own time of a rank " +
         std::string(is_slower ? "grew" : "fell") + " by " +
         rounded(std::abs(own->difference) / 1000, digits) + " s" +
         changed_most(comparison, own->difference, digits) + " (laggard verdict " + run.run + "@" +
         std::to_string(run.attempt) + " says whose it " + (is_slower ? "is" : "was") +
         "). The stages that follow are in part those of "
         "ranks that waited for it.";
}

/// A sentence for each named stage, those that go the wall's way first, and one for all of them together.
void add_causes(const Comparison& comparison, int digits, std::vector<std::string>& sentences) {
  double together = 0;
  if (std::string text = waited_for(comparison, digits); !text.empty()) sentences.push_back(std::move(text));
  for (const bool along : {true, false}) {
    for (const std::size_t i : comparison.causes) {
      const ComparedRow& row = comparison.rows[i];
      if ((row.difference > 0) != ((comparison.wall().difference > 0) == along)) continue;
      sentences.push_back(cause_text(comparison, row, digits) + ".");
      together += row.difference;
    }
  }
  sentences.push_back("Named stages together: " + with_sign(together / 1000, digits) + " of " +
                      with_sign(comparison.wall().difference / 1000, digits) + " s.");
}

/// Stages whose difference lies inside the spread between repetitions.
std::vector<std::string> inside_spread(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const ComparedRow& row : comparison.rows)
    if (row.figure == Figure::stage && !row.exclusive && row.finding == Finding::inside &&
        std::find(names.begin(), names.end(), row.name) == names.end())
      names.push_back(row.name);
  return names;
}

std::string repetition_caveat(const Comparison& comparison) {
  const std::size_t base = comparison.base.size(), newer = comparison.newer.size();
  if (!comparison.is_run_to_run_measured()) {
    if (comparison.blocks_base == 0 || comparison.blocks_new == 0)
      return "No interval: for blocks of steps each run needs " + std::to_string(kLeastStepsForBlocks) +
             " steps.";
    return "Figures and intervals are of block medians (" + std::to_string(comparison.blocks_base) + " and " +
           std::to_string(comparison.blocks_new) + " blocks of steps that follow each other" +
           (comparison.paired_blocks ? ", in pairs" : "") + ") and hold noise within the runs alone.";
  }
  if (base == 1 || newer == 1)
    return "One side has one run: the spread of the other side is taken for both, and nothing can be named "
           "as "
           "a cause.";
  return "The run is the unit of repetition: figures are means of run means (" + runs_text(base) + " and " +
         runs_text(newer) + "), intervals Welch's t.";
}

std::string rank_caveat(const Comparison& comparison) {
  if (comparison.smallest_rank_p <= kSignificance)
    return "The rank p-values are exact and two-sided; the smallest that these runs can reach is " +
           rounded(comparison.smallest_rank_p, 3) + ".";
  const std::size_t needed = runs_needed();
  return "No rank p-value: the smallest that " + std::to_string(comparison.base.size()) + " + " +
         std::to_string(comparison.newer.size()) + " runs can reach is " +
         rounded(comparison.smallest_rank_p, 3) + "; " + std::to_string(needed) + " + " +
         std::to_string(needed) + " runs reach " + rounded(smallest_rank_p(needed, needed), 3) + ".";
}

std::string time_text(double ms) {
  const double seconds = std::abs(ms) / 1000;
  if (seconds < 120) return rounded(seconds, 0) + " s";
  return seconds < 7200 ? rounded(seconds / 60, 1) + " min" : rounded(seconds / 3600, 1) + " h";
}

std::string order_caveat(const Order& order) {
  if (order.known == OrderKnown::unknown)
    return "In which order the runs were made is not known (no started_unix_ms in their settings, and their "
           "records did not come while they ran): drift cannot be told from an effect.";
  if (order.pattern.empty())
    return "Runs of both sides started at the same time, so they have no order: drift cannot be told from an "
           "effect.";
  std::string text = "Order of the runs" +
                     std::string(order.known == OrderKnown::received ? ", by receipt of their records" : "") +
                     ": " + order.pattern + " (A base, B new). ";
  if (order.drift == Drift::cancels) return text + "A steady drift cancels out.";
  if (order.drift == Drift::confounded)
    text += "One side ran before the other: whatever drifts with time passes for an effect.";
  else
    text += "New runs started " + time_text(order.apart_ms) + (order.apart_ms > 0 ? " later" : " earlier") +
            " on average: what drifts steadily does so much more on one side.";
  return text + " laggard compare --plan N prints a balanced order.";
}

/// "recompute (0.500 s)": stages that one side lacks, or some runs do.
std::vector<std::string> one_sided(const Comparison& comparison, int digits) {
  std::vector<std::string> names;
  for (const ComparedRow& row : comparison.rows) {
    if (row.figure != Figure::stage || row.exclusive || std::isfinite(row.difference)) continue;
    const bool base = std::isfinite(row.base), newer = std::isfinite(row.newer);
    const std::string where = base && newer ? "not in every run" : base ? "only in base" : "only in new";
    names.push_back(row.name + " (" + std::string(name_of(row.clock)) + ", " + where + ": " +
                    rounded((base ? row.base : row.newer) / 1000, digits) + " s)");
  }
  return names;
}

std::string lacked_text(const Comparison& comparison, int digits) {
  const std::vector<std::string> names = one_sided(comparison, digits);
  return names.empty() ? "" : " Not every run has " + listed(names) + ".";
}

/// Two runs whose walls agree to the last bit are one run under two names.
std::vector<std::string> twins(const Comparison& comparison) {
  std::vector<const RunReport*> all;
  for (const auto* side : {&comparison.base, &comparison.newer})
    for (const ComparedRun& run : *side) all.push_back(&run.report);
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (all[i]->steps > 0 && all[i]->max_rank_wall_ms == all[j]->max_rank_wall_ms &&
          all[i]->all_steps_total_ms == all[j]->all_steps_total_ms)
        sentences.push_back(all[j]->run + " and " + all[i]->run +
                            " have the same walls to the last digit: are they one run under two names?");
  return sentences;
}

}  // namespace

std::vector<std::string> conclusions(const Comparison& comparison) {
  const int digits = digits_of(comparison);
  std::vector<std::string> sentences;
  const std::string mark =
      comparison.match.pass ? ""
                            : "The runs did not do the same work, so no figure here is of the change alone. ";
  sentences.push_back(mark + wall_sentence(comparison, digits));
  if (!comparison.is_run_to_run_measured())
    sentences.emplace_back(
        "Run-to-run variation was not measured: two runs of the same job may differ as much. With one run a "
        "side no stage is named.");
  if (!comparison.causes.empty())
    add_causes(comparison, digits, sentences);
  else if (comparison.match.pass && comparison.wall().finding == Finding::beyond)
    sentences.emplace_back("No stage can be named for it." + lacked_text(comparison, digits));
  else if (comparison.match.pass && comparison.wall().finding == Finding::inside)
    sentences.emplace_back(
        "The wall's difference is inside the spread between repetitions, so no stage is named for it.");
  if (const auto inside = inside_spread(comparison); !inside.empty())
    sentences.push_back("Inside the spread between repetitions, so not named: " + listed(inside) + ".");
  return sentences;
}

std::vector<std::string> caveats(const Comparison& comparison) {
  std::vector<std::string> sentences = {repetition_caveat(comparison), rank_caveat(comparison),
                                        order_caveat(comparison.order)};
  if (const auto names = one_sided(comparison, digits_of(comparison)); !names.empty())
    sentences.push_back("No difference is given of what a side lacks: " + listed(names) + ".");
  if (comparison.own_clocks_differ)
    sentences.emplace_back(
        "Own times and S have no difference: some runs timed their stages on the stream, others on the "
        "host.");
  for (std::string& sentence : twins(comparison)) sentences.push_back(std::move(sentence));
  return sentences;
}

}  // namespace laggard::core
