#include "daemon/core/run_order.h"

#include <algorithm>
#include <cmath>

namespace laggard::core {
namespace {

// Of the time that the steps took: a job's first step is over when its first record comes.
constexpr double kReceivedLive = 0.5;

bool came_live(const RunTime& run) {
  return run.walls_ms > 0 &&
         static_cast<double>(run.last_received - run.first_received) >= kReceivedLive * run.walls_ms;
}

}  // namespace

Order order_of(std::vector<RunTime> runs) {
  Order order;
  if (std::all_of(runs.begin(), runs.end(), [](const RunTime& run) { return run.started.has_value(); }))
    order.known = OrderKnown::started;
  else if (std::all_of(runs.begin(), runs.end(), came_live))
    order.known = OrderKnown::received;
  else
    return order;
  const auto time_of = [&](const RunTime& run) {
    return order.known == OrderKnown::started ? *run.started : run.first_received;
  };
  std::sort(runs.begin(), runs.end(),
            [&](const RunTime& a, const RunTime& b) { return time_of(a) < time_of(b); });
  for (std::size_t i = 1; i < runs.size(); ++i)
    if (time_of(runs[i - 1]) == time_of(runs[i]) && runs[i - 1].newer != runs[i].newer) return order;

  double base_sum = 0, new_sum = 0;
  std::size_t changes = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    order.pattern += runs[i].newer ? 'B' : 'A';
    (runs[i].newer ? new_sum : base_sum) += static_cast<double>(time_of(runs[i]) - time_of(runs.front()));
    changes += i > 0 && runs[i].newer != runs[i - 1].newer ? 1U : 0U;
  }
  const auto newer = std::count(order.pattern.begin(), order.pattern.end(), 'B');
  const auto base = static_cast<std::ptrdiff_t>(runs.size()) - newer;
  order.apart_ms = new_sum / static_cast<double>(newer) - base_sum / static_cast<double>(base);
  const double between = static_cast<double>(time_of(runs.back()) - time_of(runs.front())) /
                         static_cast<double>(runs.size() - 1);
  if (changes == 1)
    order.drift = Drift::confounded;
  else
    order.drift = std::abs(order.apart_ms) <= between / 2 ? Drift::cancels : Drift::partly;
  return order;
}

std::string_view name_of(OrderKnown known) {
  switch (known) {
    case OrderKnown::unknown:
      return "unknown";
    case OrderKnown::started:
      return "started_unix_ms";
    case OrderKnown::received:
      return "received";
  }
  return "?";
}

std::string_view name_of(Drift drift) {
  switch (drift) {
    case Drift::unknown:
      return "unknown";
    case Drift::cancels:
      return "cancels";
    case Drift::partly:
      return "partly";
    case Drift::confounded:
      return "confounded";
  }
  return "?";
}

}  // namespace laggard::core
