// One JSON object to a record.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "agent/parsed_line.h"

namespace laggard::agent {

/// Reads JSON objects as records of DESIGN's line format. Nothing about the text is trusted.
class RecordReader {
 public:
  enum class Result : std::uint8_t {
    read,    ///< `out` holds what it is: a record, foreign, or rejected with its reason
    broken,  ///< the text is not one JSON object and nothing else; `out` is worthless
  };

  RecordReader();
  ~RecordReader();

  /// `out` must be the same object every time: names that repeat are compared with it, not copied.
  Result read(std::string_view text, ParsedLine* out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace laggard::agent
