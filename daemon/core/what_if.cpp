#include "daemon/core/what_if.h"

#include <algorithm>

namespace laggard::core {
namespace {

class WhatIfs {
 public:
  WhatIfs(const OwnRows& rows, OwnRows::const_iterator begin, const Verdict& verdict)
      : verdict_(verdict), begin_(begin), end_(rows.end()) {}

  void add_stages() {
    std::map<StageId, double> gain;
    for (auto row = begin_; row != end_; ++row)
      for (const OwnTimes::Recoverable& stage : row->second.own->recoverable) gain[stage.stage] += stage.ms;
    for (const auto& [stage, sum] : gain)
      add({.of = WhatIf::Of::stage, .stage = stage, .key = {}, .value = {}}, sum);
  }

  void add_rank(Rank rank) {
    double gain = 0;
    for (auto row = begin_; row != end_; ++row)
      if (row->second.max_rank == rank) gain += row->second.max_own_ms - row->second.second_own_ms;
    add({.of = WhatIf::Of::rank, .rank = rank, .key = {}, .value = {}}, gain);
  }

  // If the largest own time were that of the other ranks.
  void add_group(const RankGroup& group) {
    double gain = 0;
    for (auto row = begin_; row != end_; ++row) {
      const double others = row->second.largest_without(group.ranks);
      if (others > 0) gain += row->second.max_own_ms - others;  // else nobody is there to compare with
    }
    add({.of = WhatIf::Of::group, .key = group.key, .value = group.value}, gain);
  }

  std::vector<WhatIf> take() {
    std::ranges::stable_sort(out_, {}, &WhatIf::wall_ms);
    if (out_.size() > kWhatIfListed) out_.resize(kWhatIfListed);
    return std::move(out_);
  }

 private:
  void add(WhatIf what, double gain_over_steps) {
    const double gain = gain_over_steps / static_cast<double>(verdict_.steps);
    if (gain < kWorthListing * verdict_.wall_ms) return;
    what.wall_ms = verdict_.wall_ms - gain;
    out_.push_back(std::move(what));
  }

  const Verdict& verdict_;
  OwnRows::const_iterator begin_, end_;
  std::vector<WhatIf> out_;
};

}  // namespace

std::vector<WhatIf> what_if(const OwnRows& rows, OwnRows::const_iterator begin, const Verdict& verdict,
                            const Placement& placement) {
  WhatIfs list(rows, begin, verdict);
  list.add_stages();
  for (const CulpritShare& culprit : verdict.culprits) list.add_rank(culprit.rank);
  if (verdict.held.has_value()) {
    const Held& held = *verdict.held;
    for (const RankGroup& group : placement.groups())
      if (group.ranks.size() < verdict.ranks && std::ranges::includes(group.ranks, held.ranks))
        list.add_group(group);
    if (held.group.has_value() && held.group->key == "ranks") list.add_group(*held.group);
    if (!held.group.has_value() && held.ranks.size() > 1)
      list.add_group({"ranks", list_of(held.ranks, kCulpritsListed), held.ranks});
  }
  return list.take();
}

}  // namespace laggard::core
