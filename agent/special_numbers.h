// NaN, Infinity and -Infinity as Python's json writes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::agent {

/// The places of a line where a bare NaN, Infinity or -Infinity stood.
class SpecialNumbers {
 public:
  /// Overwrites each such token outside of strings by a number of the same length, so that a strict parser
  /// can read the line, and remembers where it did.
  void take_from(std::string& line);

  bool empty() const { return places_.empty(); }
  /// The number that stood at this offset of the line; nullptr when none was overwritten there.
  const double* find(std::size_t offset) const;

 private:
  struct Place {
    std::size_t offset;
    double number;
  };
  std::vector<Place> places_;  // ascending
};

}  // namespace laggard::agent
