#include "tests/bench/records.h"

#include <string>

namespace laggard::bench {
namespace {

constexpr std::size_t kStages = 14, kCounts = 11, kSamples = 16;

}  // namespace

agent::ParsedLine make_line(Rank rank) {
  agent::ParsedLine line;
  line.kind = agent::LineKind::update;
  line.rank = rank;
  line.layout_version = 1;
  for (std::size_t i = 0; i < kStages; ++i) {
    const std::string name = "stage_" + std::to_string(i);
    line.layout.stream.push_back(name);
    line.layout.host.push_back(name);
    line.layout.calls.push_back(name);
  }
  for (std::size_t i = 0; i < kCounts; ++i) line.layout.counts.push_back("count_" + std::to_string(i));
  const auto seed = static_cast<double>(rank * 17);
  while (line.doubles.size() < line.layout.double_count())
    line.doubles.push_back(14'000.123 + seed * 1.000'1 / static_cast<double>(line.doubles.size() + 1));
  while (line.ints.size() < line.layout.int_count())
    line.ints.push_back(static_cast<std::int64_t>(line.ints.size()) * 37 + rank);
  for (std::size_t i = 0; i < kSamples; ++i)
    line.sample_indices.push_back(static_cast<std::int64_t>(100'000 * rank + i));
  return line;
}

agent::ParsedLine make_config(Rank rank, Rank world) {
  agent::ParsedLine line;
  line.kind = agent::LineKind::config;
  line.rank = rank;
  line.world_size = world;
  line.settings = R"({"world_size":)" + std::to_string(world) + "}";
  return line;
}

agent::Hello hello_of(Rank rank) {
  return {.run = "bench",
          .rank = rank,
          .source = {.id = "source-" + std::to_string(rank),
                     .host = "bench",
                     .origin = "/bench/" + std::to_string(rank)}};
}

}  // namespace laggard::bench
