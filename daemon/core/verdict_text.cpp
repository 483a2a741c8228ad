// The verdict in one sentence.
#include <array>
#include <charconv>

#include "daemon/core/verdict.h"

namespace laggard::core {
namespace {

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

std::string list_of(const std::vector<Rank>& ranks) {
  constexpr std::size_t kListed = 8;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kListed; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kListed) text += " and " + std::to_string(ranks.size() - kListed) + " more";
  return text;
}

std::string stage_text(StageId stage, const StageTable& stages) {
  if (stage >= stages.size()) return "its stages";
  const std::string& name = stages[stage].name;
  return stages.has_children(stage) ? name + " outside its parts" : name;
}

std::string who(const Held& held, const Placement& placement) {
  if (held.group.has_value() && held.group->key == "ranks") return "ranks " + held.group->value;
  if (held.group.has_value())
    return held.group->key + " " + held.group->value + " (ranks " + list_of(held.ranks) + ")";
  if (held.ranks.size() > 1) return "ranks " + list_of(held.ranks);
  const std::string& host = placement.host_of(held.ranks.front());
  return "rank " + std::to_string(held.ranks.front()) + (host.empty() ? "" : " (" + host + ")");
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
  return text + "; " + percent(held.share) + " of " + std::to_string(held.steps) + " steps";
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

std::string rotating_text(const Verdict& verdict) {
  if (!verdict.culprits.empty() && verdict.culprits.front().share > 0.5) {
    const CulpritShare& first = verdict.culprits.front();
    return "nobody is named: rank " + std::to_string(first.rank) + " is the slowest in " +
           percent(first.share) +
           " of the steps, but is not slower than the others by more than they vary; uneven ranks cost " +
           cost_text(verdict);
  }
  if (verdict.culprits.empty())
    return "no rank stands out: in no step is one clearly slower than the usual rank, yet uneven ranks "
           "cost " +
           cost_text(verdict);
  if (const WhatIf* rank = now_and_then(verdict))
    return "no rank holds all steps back; rank " + std::to_string(rank->rank) +
           " does now and then, which costs " + duration(verdict.wall_ms - rank->wall_ms) + " a step, of " +
           cost_text(verdict) + " that uneven ranks do";
  return "no rank stands out: the slowest changes from step to step and costs " + cost_text(verdict);
}

std::string counted_twice_text(const Verdict& verdict) {
  return "own times add up to " + duration(verdict.max_own_ms) + " of a step of " +
         duration(verdict.wall_ms) +
         ", so some stages contain others and are counted twice (stage_parents or a profile say how they "
         "nest)";
}

std::string no_verdict_text(const Verdict& verdict) {
  if (verdict.ranks < 2) return "no verdict yet: no step with own times of two ranks";
  if (verdict.steps >= kVerdictSteps) return "no verdict: " + counted_twice_text(verdict);
  return "no verdict yet: " + std::to_string(verdict.steps) + " of " + std::to_string(kVerdictSteps) +
         " steps";
}

}  // namespace

std::string sentence_of(const Verdict& verdict, const StageTable& stages, const Placement& placement) {
  std::string text;
  switch (verdict.kind) {
    case VerdictKind::unknown:
      return no_verdict_text(verdict);
    case VerdictKind::balanced:
      text = "balanced: uneven ranks cost " + cost_text(verdict);
      break;
    case VerdictKind::rotating:
      text = rotating_text(verdict) + sync_note(verdict, stages);
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
  if (verdict.counted_twice) text += "; beware: " + counted_twice_text(verdict);
  const std::uint64_t steps = verdict.held.has_value() ? verdict.held->present : verdict.steps;
  if (verdict.tentative) text += " (tentative: " + std::to_string(steps) + " steps)";
  return text;
}

}  // namespace laggard::core
