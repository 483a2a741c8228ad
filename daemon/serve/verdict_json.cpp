#include "daemon/serve/verdict_json.h"

#include <algorithm>
#include <array>

namespace laggard::serve {
namespace {

constexpr std::size_t kRanksListed = 64;

std::vector<Rank> listed(const std::vector<Rank>& ranks) {
  const std::size_t most = std::min(ranks.size(), kRanksListed);
  return {ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(most)};
}

Json name_json(core::StageId stage, const core::StageTable& stages) {
  return stage < stages.size() ? Json(stages[stage].name) : Json(nullptr);
}

Json group_json(const std::string& key, const std::string& value) { return {{"key", key}, {"value", value}}; }

Json held_json(const core::Held& held, const core::StageTable& stages) {
  const bool by_stage = held.stage < stages.size();
  Json by_rank = Json::array();
  for (std::size_t i = 0; i < held.stages.size(); ++i)
    by_rank.push_back({{"rank", held.ranks[i]}, {"stage", name_json(held.stages[i], stages)}});
  return {{"ranks", listed(held.ranks)},
          {"rank_count", held.ranks.size()},
          {"group", held.group.has_value() ? group_json(held.group->key, held.group->value) : Json(nullptr)},
          {"since", optional_json(held.since)},
          {"until", optional_json(held.until)},
          {"steps", held.steps},
          {"share", figure(held.share)},
          {"excess_ms", figure(held.excess_ms)},
          {"more_covered_ms", figure(held.more_covered_ms)},
          {"stage", name_json(held.stage, stages)},
          {"stage_exclusive", by_stage && stages.has_children(held.stage)},
          {"stage_excess_ms", by_stage ? figure(held.stage_excess_ms) : Json(nullptr)},
          {"stages", std::move(by_rank)},
          {"wall_ms", figure(held.wall_ms)},
          {"slowdown", figure(held.slowdown)}};
}

Json what_if_json(const core::WhatIf& what, double wall_ms, const core::StageTable& stages) {
  using Of = core::WhatIf::Of;
  constexpr std::array<const char*, 3> kOf{"stage", "rank", "group"};
  return {{"of", kOf[static_cast<std::size_t>(what.of)]},
          {"stage", what.of == Of::stage ? name_json(what.stage, stages) : Json(nullptr)},
          {"rank", what.of == Of::rank ? Json(what.rank) : Json(nullptr)},
          {"group", what.of == Of::group ? group_json(what.key, what.value) : Json(nullptr)},
          {"wall_ms", figure(what.wall_ms)},
          {"gain_ms", figure(wall_ms - what.wall_ms)}};
}

}  // namespace

Json to_json(const core::VerdictView& view, const core::StageTable& stages) {
  const core::Verdict& verdict = view.verdict;
  const bool known = verdict.kind != core::VerdictKind::unknown;
  const auto figure_known = [&](double value) { return known ? figure(value) : Json(nullptr); };
  Json culprits = Json::array();
  for (const core::CulpritShare& culprit : verdict.culprits)
    culprits.push_back({{"rank", culprit.rank},
                        {"steps", culprit.steps},
                        {"share", figure(culprit.share)},
                        {"mean_excess_ms", figure(culprit.mean_excess_ms)},
                        {"stage", name_json(culprit.stage, stages)},
                        {"gone_after", optional_json(culprit.gone_after)}});
  Json what_if = Json::array();
  for (const core::WhatIf& what : verdict.what_if)
    what_if.push_back(what_if_json(what, verdict.wall_ms, stages));
  return {{"kind", core::name_of(verdict.kind)},
          {"sentence", view.sentence},
          {"tentative", verdict.tentative},
          {"from", optional_json(verdict.from)},
          {"to", optional_json(verdict.to)},
          {"steps", verdict.steps},
          {"partial_steps", verdict.partial_steps},
          {"odd_steps", verdict.odd_steps},
          {"ranks", verdict.ranks},
          {"unjudged", listed(verdict.unjudged)},
          {"outside", verdict.outside.ranks.empty() ? Json(nullptr)
                                                    : Json{{"ranks", listed(verdict.outside.ranks)},
                                                           {"rank_count", verdict.outside.ranks.size()},
                                                           {"least_ms", figure(verdict.outside.least_ms)},
                                                           {"most_ms", figure(verdict.outside.most_ms)}}},
          {"has_sync", verdict.has_sync()},
          {"wall_ms", figure_known(verdict.wall_ms)},
          {"max_own_ms", figure_known(verdict.max_own_ms)},
          {"mean_own_ms", figure_known(verdict.mean_own_ms)},
          {"lost_ms", figure_known(verdict.lost_ms)},
          {"slowdown", figure_known(verdict.slowdown)},
          {"counted_twice", verdict.counted_twice},
          {"held", verdict.held.has_value() ? held_json(*verdict.held, stages) : Json(nullptr)},
          {"culprits", std::move(culprits)},
          {"what_if", std::move(what_if)},
          {"least_sync_ms", figure(verdict.least_sync_ms)},
          {"longest_sync", name_json(verdict.longest_sync, stages)}};
}

Json stage_kinds_json(const core::StageTable& stages) {
  Json list = Json::array();
  for (const core::StageId id : stages.tree_order()) {
    const core::Stage& stage = stages[id];
    const bool has_parent = stage.parent != core::kNoStage;
    list.push_back({{"stage", stage.name},
                    {"kind", core::name_of(stage.kind)},
                    {"kind_from", core::name_of(stage.kind_from)},
                    {"parent", name_json(stage.parent, stages)},
                    {"parent_from", has_parent ? Json(core::name_of(stage.parent_from)) : Json(nullptr)}});
  }
  return list;
}

std::string straggler_text(const core::Held& held) {
  if (held.group.has_value()) return held.group->key + " " + held.group->value;
  constexpr std::size_t kListed = 4;
  std::string text = held.ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < std::min(held.ranks.size(), kListed); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(held.ranks[i]);
  return held.ranks.size() > kListed ? text + ", ..." : text;
}

}  // namespace laggard::serve
