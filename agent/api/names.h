// The names of what a training process measures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace laggard::agent {

using NameId = std::uint32_t;

/// Names with small numbers, from 0. One thread adds them; any thread may read those that it knows of.
class NameTable {
 public:
  explicit NameTable(std::size_t most) : most_(most), names_(std::make_unique<std::string[]>(most)) {}

  /// The number of a name, a new one when it was not known; nothing when the table is full.
  std::optional<NameId> intern(std::string_view name);
  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  const std::string& operator[](std::size_t id) const { return names_[id]; }

 private:
  const std::size_t most_;
  const std::unique_ptr<std::string[]> names_;
  std::atomic<std::size_t> size_{0};
};

/// All names of the process. What is known of a stage beside its name is found out while it is measured.
struct Names {
  static constexpr std::int32_t kNotEntered = -2;  ///< parent of a stage that was not entered yet
  static constexpr std::int32_t kNoParent = -1;

  struct Stage {
    std::atomic<std::int32_t> parent{kNotEntered};
    std::atomic<std::int32_t> kind{0};  ///< a laggard_kind
  };

  Names();

  NameTable stages, counts, values, tags;
  const std::unique_ptr<Stage[]> stage_info;    ///< by stage
  std::atomic<std::uint32_t> stage_version{0};  ///< another number whenever a parent or kind is new
};

}  // namespace laggard::agent
