#include "daemon/app/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

namespace laggard::app {
namespace {

constexpr std::size_t kFewest = limits::kReservedDescriptors + 16;

}  // namespace

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw Error("cannot read the limit of open files");
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

ConnectionShares share_descriptors(std::size_t descriptors) {
  if (descriptors < kFewest)
    throw Error("only " + std::to_string(descriptors) + " files may be open, and laggardd needs " +
                std::to_string(kFewest) +
                ": raise the hard limit (ulimit -Hn, or LimitNOFILE of the service)");
  const std::size_t free = descriptors - limits::kReservedDescriptors;
  const std::size_t http = std::min(limits::kMaxHttpConnections, free / 4);
  return {.agents = std::min(limits::kMaxAgentConnections, free - http), .http = http};
}

}  // namespace laggard::app
