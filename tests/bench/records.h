// The records of the benchmarks: 14 stages on two clocks, 11 counts and 16 sample indices.
#pragma once

#include "agent/messages.h"
#include "agent/parsed_line.h"

namespace laggard::bench {

/// An update of this rank; its step is still to be set.
agent::ParsedLine make_line(Rank rank);
agent::ParsedLine make_config(Rank rank, Rank world);
agent::Hello hello_of(Rank rank);

}  // namespace laggard::bench
