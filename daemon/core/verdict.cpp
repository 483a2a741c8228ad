#include "daemon/core/verdict.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace laggard::core {

std::string_view name_of(VerdictKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"unknown",   "balanced", "one_rank",   "several_ranks",
                                                   "one_group", "rotating", "inside_sync"};
  return kNames[static_cast<std::size_t>(kind)];
}

Placement::Placement(const std::vector<Place>& places) {
  constexpr std::array<std::string_view, 4> kFirst{"host", "pp", "tp", "dp"};
  const auto order_of = [&](const std::string& key) {
    return std::ranges::find(kFirst, key) - kFirst.begin();
  };
  std::map<std::tuple<std::ptrdiff_t, std::string, std::string>, std::vector<Rank>> members;
  for (const Place& place : places) {
    if (!place.host.empty()) {
      hosts_.emplace(place.rank, place.host);
      members[{0, "host", place.host}].push_back(place.rank);
    }
    for (const auto& [key, value] : place.topology)
      members[{order_of(key), key, value}].push_back(place.rank);
  }
  for (auto& [name, ranks] : members) {
    if (ranks.size() < 2) continue;
    std::ranges::sort(ranks);
    groups_.push_back({std::get<1>(name), std::get<2>(name), std::move(ranks)});
  }
}

const std::string& Placement::host_of(Rank rank) const {
  static const std::string kUnknown;
  const auto it = hosts_.find(rank);
  return it == hosts_.end() ? kUnknown : it->second;
}

}  // namespace laggard::core
