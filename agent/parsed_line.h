// What one line of a followed file turned out to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/record.h"

namespace laggard::agent {

enum class LineKind : std::uint8_t { update, config, end, foreign, rejected };

/// One record, or why there is none. The parser that filled it uses it again for its next line.
struct ParsedLine {
  LineKind kind = LineKind::foreign;
  std::string_view reason;  ///< of foreign and rejected; a literal

  Rank rank = 0;  ///< of update, config and end

  // Of an update.
  Step step = 0;
  Layout layout;
  std::uint64_t layout_version = 0;  ///< another number whenever the layout is not that of the update before
  std::vector<double> doubles;
  std::vector<std::int64_t> ints;
  std::vector<std::int64_t> sample_indices;
  RecordRest rest;

  // Of a config.
  std::uint32_t world_size = 0;          ///< 0 when the line does not say
  std::optional<std::uint32_t> attempt;  ///< when the line says it
  std::string settings;                  ///< the whole line as a JSON object, keys sorted

  /// The update as a record; it views this object's memory.
  RecordView view() const {
    return {.step = step,
            .rank = rank,
            .layout = &layout,
            .doubles = doubles,
            .ints = ints,
            .sample_indices = sample_indices,
            .rest = rest.empty() ? nullptr : &rest};
  }
};

}  // namespace laggard::agent
