// In which order the runs of a comparison were made, and what drift can do with that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/core/model.h"

namespace laggard::core {

enum class OrderKnown : std::uint8_t {
  unknown,   ///< no start times, and records that came faster than the job can have run
  started,   ///< the settings of every run say started_unix_ms
  received,  ///< by the collector's receipt of the first record
};

/// What a drift of the machine, steady in time, does to the difference.
enum class Drift : std::uint8_t {
  unknown,
  cancels,     ///< both sides started at the same time on average, within half of what lies between two runs
  partly,      ///< one side is later on average
  confounded,  ///< every run of one side is before every run of the other
};

struct RunTime {
  bool newer = false;  ///< which side
  std::optional<UnixMs> started;
  UnixMs first_received = 0, last_received = 0;
  double walls_ms = 0;  ///< all its steps together
};

struct Order {
  OrderKnown known = OrderKnown::unknown;
  Drift drift = Drift::unknown;
  std::string pattern;  ///< "ABBA": A a base run, B a new one; "" when not known, or runs of both sides tie
  double apart_ms = 0;  ///< how much later a new run started on average
};

/// The order of receipt counts only when the records came about as slowly as the job ran: a file that is
/// imported later comes at once.
Order order_of(std::vector<RunTime> runs);

std::string_view name_of(OrderKnown known);
std::string_view name_of(Drift drift);

}  // namespace laggard::core
