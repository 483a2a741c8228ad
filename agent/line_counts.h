// What became of the lines of a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/messages.h"

namespace laggard::agent {

/// Each line that was read is in exactly one of these counters.
struct LineCounts {
  struct Rejection {
    std::uint64_t line;
    std::string reason;
  };
  static constexpr std::size_t kRejectionsKept = 5;

  std::uint64_t updates = 0, configs = 0, ends = 0;
  std::uint64_t blank = 0;
  std::map<std::string, std::uint64_t> foreign, rejected;  ///< by reason
  std::uint64_t pending_tail = 0;                          ///< 1 when the last line is not finished yet
  std::vector<Rejection> first_rejections;                 ///< the first ones, and the first of each reason

  void add_foreign(std::string_view reason) { ++foreign[std::string(reason)]; }
  void add_rejected(std::uint64_t line, std::string_view reason) {
    const bool new_reason = ++rejected[std::string(reason)] == 1;
    if (new_reason || first_rejections.size() < kRejectionsKept)
      first_rejections.push_back({line, std::string(reason)});
  }
  LineTotals totals() const { return {updates + configs + ends, sum(foreign), sum(rejected), pending_tail}; }
  /// All lines that were read, blank ones too.
  std::uint64_t lines() const {
    const LineTotals all = totals();
    return all.accepted + all.foreign + all.rejected + all.pending_tail + blank;
  }

 private:
  static std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
    std::uint64_t out = 0;
    for (const auto& [reason, count] : counts) out += count;
    return out;
  }
};

}  // namespace laggard::agent
