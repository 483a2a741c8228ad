#include "agent/api/names.h"

#include "daemon/base/limits.h"

namespace laggard::agent {

std::optional<NameId> NameTable::intern(std::string_view name) {
  const std::size_t size = size_.load(std::memory_order_relaxed);
  for (std::size_t id = 0; id < size; ++id)
    if (names_[id] == name) return static_cast<NameId>(id);
  if (size == most_) return std::nullopt;
  names_[size] = name;
  size_.store(size + 1, std::memory_order_release);
  return static_cast<NameId>(size);
}

Names::Names()
    : stages(limits::kMaxApiNames),
      counts(limits::kMaxApiNames),
      values(limits::kMaxApiNames),
      tags(limits::kMaxApiTags),
      stage_info(std::make_unique<Stage[]>(limits::kMaxApiNames)) {}

}  // namespace laggard::agent
