// The verdict in one sentence.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "daemon/core/verdict.h"

namespace laggard::core {
namespace {

constexpr std::size_t kRanksListed = 8;

// Whatever the locale says.
std::string fixed(double value, int digits) {
  std::array<char, 400> text{};
  const auto result =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return {text.data(), result.ptr};
}

std::string percent(double fraction) { return fixed(100 * fraction, fraction < 0.0995 ? 1 : 0) + " %"; }

std::string duration(double ms) {
  if (ms < 1000) return fixed(ms, ms < 10 ? 1 : 0) + " ms";
  return fixed(ms / 1000, 2) + " s";
}

std::string stage_text(StageId stage, const StageTable& stages) {
  if (stage >= stages.size()) return "its stages";
  const std::string& name = stages[stage].name;
  return stages.has_children(stage) ? name + " outside its parts" : name;
}

std::string who(const Held& held, const Placement& placement) {
  if (held.group.has_value() && held.group->key == "ranks") return "ranks " + held.group->value;
  if (held.group.has_value())
    return held.group->key + " " + held.group->value + " (ranks " + list_of(held.ranks, kRanksListed) + ")";
  if (held.ranks.size() > 1) return "ranks " + list_of(held.ranks, kRanksListed);
  const std::string& host = placement.host_of(held.ranks.front());
  return "rank " + std::to_string(held.ranks.front()) + (host.empty() ? "" : " (" + host + ")");
}

// The others wait for those who are named, but not in a stage. Or these wait for the others, in one that
// nobody said contains waiting: the times are the same.
std::string unseen_waiting_note(const Verdict& verdict, const StageTable& stages) {
  const Held& held = *verdict.held;
  if (!verdict.has_sync() || verdict.counted_twice || held.stage >= stages.size()) return "";
  if (stages[held.stage].kind_from != Knowledge::assumed || 2 * held.more_covered_ms < held.excess_ms)
    return "";
  return "; beware: in none of their stages do the others wait for " +
         std::string(held.ranks.size() == 1 ? "it" : "them") + ", and nobody said which kind " +
         stages[held.stage].name + " is: if it contains waiting, it is the others that are late";
}

std::string held_text(const Verdict& verdict, const StageTable& stages, const Placement& placement) {
  const Held& held = *verdict.held;
  const bool one = held.ranks.size() == 1 || (held.group.has_value() && held.group->key != "ranks");
  std::string text = who(held, placement);
  const std::string verb = held.until.has_value() ? "held" : (one ? "holds" : "hold");
  if (held.share > 0.995)
    text += " " + verb + " every step back";
  else if (held.share > 0.5)
    text += " " + verb + " most steps back";
  else
    text += " " + verb + " steps back";
  if (held.since.has_value())
    text += (held.until.has_value() ? " from step " : " since step ") + std::to_string(*held.since);
  if (held.until.has_value()) text += " until step " + std::to_string(*held.until);
  const bool by_stage = held.is_one_stage();
  const double excess = by_stage ? held.stage_excess_ms : held.excess_ms;
  text += ": " + (by_stage ? stage_text(held.stage, stages) : std::string("own time")) + " +" +
          duration(excess) + " of " + duration(held.wall_ms) + " (" + percent(excess / held.wall_ms) + ")";
  if (!by_stage && held.stage != kNoStage) text += ", above all in " + stage_text(held.stage, stages);
  for (std::size_t i = 0; i < held.stages.size(); ++i)
    text += (i == 0 ? ", above all rank " : ", rank ") + std::to_string(held.ranks[i]) + " in " +
            stage_text(held.stages[i], stages);
  const bool newest = !held.since.has_value() && !held.until.has_value() && held.steps < verdict.steps;
  return text + "; " + percent(held.share) + " of " + (newest ? "the newest " : "") +
         std::to_string(held.steps) + " steps" + unseen_waiting_note(verdict, stages);
}

std::string cost_text(const Verdict& verdict) {
  return duration(verdict.lost_ms) + " of " + duration(verdict.wall_ms) + " a step (S " +
         fixed(verdict.slowdown, 3) + ")";
}

std::string sync_text(const Verdict& verdict, const StageTable& stages) {
  return "of each step at least " + duration(verdict.least_sync_ms) + " (" +
         percent(verdict.least_sync_ms / verdict.wall_ms) + ") is inside sync stages, above all " +
         stage_text(verdict.longest_sync, stages) +
         ", where a late rank cannot be told from the ones that wait";
}

std::string hidden_text(const Verdict& verdict, const StageTable& stages) {
  const std::string seen =
      verdict.slowdown < kBalanced ? "own times are even" : "uneven own times cost " + cost_text(verdict);
  return "nobody can be named: " + seen + ", and " + sync_text(verdict, stages);
}

// Also said beside what is seen, where sync stages are long.
std::string sync_note(const Verdict& verdict, const StageTable& stages) {
  const bool is_long =
      is_valid(verdict.least_sync_ms) && verdict.least_sync_ms >= kHidingSync * verdict.wall_ms;
  return is_long ? "; " + sync_text(verdict, stages) : "";
}

// A rank that alone costs at least half of what uneven ranks do, and no other nearly as much; null: none.
const WhatIf* now_and_then(const Verdict& verdict) {
  const WhatIf* first = nullptr;
  double second_ms = 0;
  const auto gain = [&](const WhatIf& what) { return verdict.wall_ms - what.wall_ms; };
  for (const WhatIf& what : verdict.what_if) {  // the largest gain first
    if (what.of != WhatIf::Of::rank) continue;
    if (first != nullptr) second_ms = std::max(second_ms, gain(what));
    if (first == nullptr) first = &what;
  }
  const bool is_it = first != nullptr && 2 * gain(*first) >= verdict.lost_ms && gain(*first) >= 3 * second_ms;
  return is_it ? first : nullptr;
}

std::string rotating_text(const Verdict& verdict, const StageTable& stages) {
  if (verdict.culprits.empty())
    return "no rank stands out: in no step is one clearly slower than the usual rank, yet uneven ranks "
           "cost " +
           cost_text(verdict);
  const CulpritShare& first = verdict.culprits.front();
  const std::string rank = "rank " + std::to_string(first.rank),
                    cost = "; uneven ranks cost " + cost_text(verdict);
  if (first.share > 0.5 && first.gone_after.has_value())
    return "nobody is named: " + rank + ", the slowest in " + percent(first.share) +
           " of the steps, is gone since step " + std::to_string(*first.gone_after) + cost;
  if (first.share > 0.5)
    return "nobody is named: " + rank + " is the slowest in " + percent(first.share) +
           " of the steps, but that is too little or too unsteady to be sure" + cost;
  if (const WhatIf* what = now_and_then(verdict)) {
    const auto culprit = std::ranges::find(verdict.culprits, what->rank, &CulpritShare::rank);
    return "no rank holds all steps back; rank " + std::to_string(what->rank) + " does in " +
           std::to_string(culprit->steps) + " of " + std::to_string(verdict.steps) + ", above all in " +
           stage_text(culprit->stage, stages) + ", which costs " + duration(verdict.wall_ms - what->wall_ms) +
           " a step" + cost;
  }
  return "no rank stands out: the slowest changes from step to step and costs " + cost_text(verdict);
}

std::string counted_twice_text(const Verdict& verdict) {
  return "own times add up to " + duration(verdict.max_own_ms) + " of a step of " +
         duration(verdict.wall_ms) +
         ", so some stages contain others and are counted twice (stage_parents or a profile say how they "
         "nest)";
}

std::string outside_note(const Verdict& verdict) {
  const Outside& outside = verdict.outside;
  if (outside.ranks.empty()) return "";
  const bool one = outside.ranks.size() == 1;
  const std::string least = duration(outside.least_ms), most = duration(outside.most_ms);
  return std::string("; the stages of ") + (one ? "rank " : "ranks ") + list_of(outside.ranks, kRanksListed) +
         " cover " + least + (least == most ? "" : " to " + most) +
         " less of each step than the usual rank's: what " + (one ? "it does or waits" : "they do or wait") +
         " for in that time is not known";
}

std::string no_verdict_text(const Verdict& verdict) {
  if (verdict.ranks < 2) return "no verdict yet: no step with own times of two ranks";
  if (verdict.steps >= kVerdictSteps && !std::isfinite(verdict.wall_ms))
    return "no verdict: the wall times are too large to add up";
  if (verdict.steps >= kVerdictSteps && !(verdict.wall_ms > 0))
    return "no verdict: by their wall times the steps take no time";
  if (verdict.steps >= kVerdictSteps && !(verdict.lost_ms < verdict.wall_ms))
    return "no verdict: " + counted_twice_text(verdict);
  if (verdict.steps >= kVerdictSteps)
    return "no verdict: own times are even, but no stage is known to contain waiting, so whoever waits looks "
           "as busy as whoever is waited for (stage_kinds or a profile say which stages are sync)";
  return "no verdict yet: " + std::to_string(verdict.steps) + " of " + std::to_string(kVerdictSteps) +
         " steps";
}

}  // namespace

std::string list_of(const std::vector<Rank>& ranks, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

std::string sentence_of(const Verdict& verdict, const StageTable& stages, const Placement& placement) {
  std::string text;
  switch (verdict.kind) {
    case VerdictKind::unknown:
      return no_verdict_text(verdict) + outside_note(verdict);
    case VerdictKind::balanced:
      text = "balanced: uneven ranks cost " + cost_text(verdict);
      break;
    case VerdictKind::rotating:
      text = rotating_text(verdict, stages) + sync_note(verdict, stages);
      break;
    case VerdictKind::inside_sync:
      text = hidden_text(verdict, stages);
      break;
    case VerdictKind::one_rank:
    case VerdictKind::several_ranks:
    case VerdictKind::one_group:
      text = held_text(verdict, stages, placement);
      break;
  }
  if (!verdict.has_sync() && verdict.kind != VerdictKind::inside_sync)
    text += "; no stage is known to contain waiting (kind sync), so waiting may have been taken for work";
  text += outside_note(verdict);
  if (!verdict.unjudged.empty())
    text += "; not judged: " + std::string(verdict.unjudged.size() == 1 ? "rank " : "ranks ") +
            list_of(verdict.unjudged, kRanksListed) + ", of whose stages a time is missing or cannot be used";
  if (verdict.odd_steps > 0)
    text += "; left out: " + std::to_string(verdict.odd_steps) +
            (verdict.odd_steps == 1 ? " step" : " steps") + " with own times of more than twice the step";
  if (verdict.counted_twice) text += "; beware: " + counted_twice_text(verdict);
  const std::uint64_t steps = verdict.held.has_value() ? verdict.held->present : verdict.steps;
  if (verdict.tentative) text += " (tentative: " + std::to_string(steps) + " steps)";
  return text;
}

}  // namespace laggard::core
