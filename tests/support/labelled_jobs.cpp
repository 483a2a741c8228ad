#include "tests/support/labelled_jobs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace laggard::test {
namespace {

constexpr std::uint32_t kPipelineStages = 4, kRanksPerHost = 8;
constexpr double kOwnMs = 475, kAllReduceMs = 25;
// Of the own time: data_fetch, forward, backward, optimizer.
constexpr std::array<double, 4> kParts{0.02, 0.33, 0.60, 0.05};
constexpr std::size_t kForward = 1;
constexpr Step kWarmUp = 10;

}  // namespace

std::string_view name_of(Trouble trouble) {
  constexpr std::array<std::string_view, kTroubles> kNames{
      "none",       "one slow rank", "slow host", "slow pipeline stage", "rotating",     "inside sync",
      "turns slow", "missing rank",  "warm-up",   "slow rank, pauses",   "graded stages"};
  return kNames[static_cast<std::size_t>(trouble)];
}

LabelledJob::LabelledJob(const JobSpec& spec) : spec_(spec), random_(spec.seed), noise_(spec.ranks, 0) {
  const Rank chosen = std::uniform_int_distribution<Rank>(0, spec.ranks - 1)(random_);
  const auto choose = [&](const auto& is_guilty) {
    for (Rank rank = 0; rank < spec_.ranks; ++rank)
      if (is_guilty(rank)) guilty_.push_back(rank);
  };
  switch (spec.trouble) {
    case Trouble::turns_slow:
      turned_ = std::uniform_int_distribution<Step>(spec.steps / 4, 3 * spec.steps / 4)(random_);
      [[fallthrough]];
    case Trouble::slow_rank:
    case Trouble::missing:
      guilty_ = {chosen};
      break;
    case Trouble::pauses:
      guilty_ = {chosen};
      for (Rank other = 1; other <= std::min<Rank>(3, spec.ranks - 1); ++other)
        pauses_[(chosen + other) % spec.ranks] =
            std::uniform_int_distribution<Step>(spec.steps / 4, spec.steps)(random_);
      break;
    case Trouble::graded:
      choose([&](Rank rank) { return rank % kPipelineStages == kPipelineStages - 1; });
      break;
    case Trouble::slow_host:
      choose([&](Rank rank) { return rank / kRanksPerHost == chosen / kRanksPerHost; });
      break;
    case Trouble::slow_stage:
      choose([&](Rank rank) { return rank % kPipelineStages == chosen % kPipelineStages; });
      break;
    default:
      break;
  }
  if (spec.trouble == Trouble::missing) dead_ = (chosen + 1) % spec.ranks;

  Layout layout;
  for (const char* name : {"data_fetch", "forward", "backward", "optimizer", "all_reduce"}) {
    layout.stream.emplace_back(name);
    stages_.intern(name);
  }
  layout_ = layouts_.intern(layout);
}

double LabelledJob::factor(Rank rank, Step number, Rank unlucky) const {
  if (spec_.trouble == Trouble::graded)
    return 1 + spec_.slow * (rank % kPipelineStages) / (kPipelineStages - 1);
  if (const auto pause = pauses_.find(rank); pause != pauses_.end() && pause->second == number) return 10;
  const bool slow = std::ranges::binary_search(guilty_, rank) && number >= turned_.value_or(1);
  if (slow) return 1 + spec_.slow;
  if (spec_.trouble == Trouble::rotating && rank == unlucky) return 1 + spec_.slow;
  if (spec_.trouble == Trouble::warm_up && number <= kWarmUp && rank == 0) return 20;
  return 1;
}

core::StepRecords LabelledJob::step(Step number) {
  std::normal_distribution<double> normal;
  const Rank unlucky = std::uniform_int_distribution<Rank>(0, spec_.ranks - 1)(random_);
  const double r = spec_.autocorrelation, fresh = std::sqrt(1 - r * r);
  struct Own {
    double forward_ms, others_ms;
    double total() const { return forward_ms + others_ms; }
  };
  std::vector<Own> own(spec_.ranks);
  double largest = 0;
  for (Rank rank = 0; rank < spec_.ranks; ++rank) {
    noise_[rank] = r * noise_[rank] + (number == 1 ? 1 : fresh) * normal(random_);
    const double base = kOwnMs * std::max(1 + spec_.noise * noise_[rank], 0.1);
    // The slowness is in one stage, a fraction of the whole own time.
    own[rank] = {base * (kParts[kForward] + factor(rank, number, unlucky) - 1),
                 base * (1 - kParts[kForward])};
    largest = std::max(largest, own[rank].total());
  }
  double all_reduce = kAllReduceMs * (1 + 0.05 * std::abs(normal(random_)));
  if (spec_.trouble == Trouble::inside_sync) all_reduce += spec_.slow * kOwnMs;
  walls_.push_back(largest + all_reduce);

  core::StepRecords records(number);
  for (Rank rank = 0; rank < spec_.ranks; ++rank) {
    if (rank == dead_ && number > spec_.steps / 2) continue;
    const double wall = largest + all_reduce + 0.1 * std::abs(normal(random_));
    const double rest = own[rank].others_ms / (1 - kParts[kForward]);
    const std::array<double, 6> doubles{wall,
                                        rest * kParts[0],
                                        own[rank].forward_ms,
                                        rest * kParts[2],
                                        rest * kParts[3],
                                        largest - own[rank].total() + all_reduce};
    RecordView view{.step = number, .rank = rank, .layout = &layouts_[layout_], .doubles = doubles};
    records.add(view, layout_);
  }
  return records;
}

Settings LabelledJob::settings(Rank rank) const {
  Settings settings;
  settings.host = "node" + std::to_string(rank / kRanksPerHost);
  settings.topology = {{"pp", std::to_string(rank % kPipelineStages)},
                       {"dp", std::to_string(rank / kPipelineStages)}};
  return settings;
}

core::Placement LabelledJob::placement() const {
  std::vector<core::Placement::Place> places;
  for (Rank rank = 0; rank < spec_.ranks; ++rank) {
    const Settings known = settings(rank);
    places.push_back({rank, known.host, known.topology});
  }
  return core::Placement(places);
}

double LabelledJob::true_slowdown(Step from) const {
  const auto begin = walls_.begin() + (from - 1);
  const double mean = std::accumulate(begin, walls_.end(), 0.0) / static_cast<double>(walls_.end() - begin);
  return mean / (kOwnMs + kAllReduceMs);
}

}  // namespace laggard::test
