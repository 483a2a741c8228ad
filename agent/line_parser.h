// One line of a followed file to the records it holds.
#pragma once

#include <string_view>
#include <vector>

#include "agent/parsed_line.h"
#include "agent/record_reader.h"

namespace laggard::agent {

/// Finds the record of a line: alone on it, between the pipes of a Markdown table, behind a launcher's prefix
/// or beside foreign text. A line mostly is one thing; where a killed writer's torn record was glued to the
/// next one it is several, each of which counts as a line.
class LineParser {
 public:
  /// Takes up a line, without its newline. `line` must stay valid until next() has returned nullptr.
  void start(std::string_view line);
  /// What the line is, then nullptr. A blank line is nothing at all. The result is valid until the next call.
  const ParsedLine* next();

 private:
  struct Piece {
    std::string_view text;
    bool object;  // else the rest of a torn record
  };

  void split();
  const ParsedLine* outcome(LineKind kind, std::string_view reason);

  RecordReader reader_;
  ParsedLine parsed_;
  std::string_view line_;      // not looked at yet
  std::vector<Piece> pieces_;  // what is left of a line that had to be split, the first one last
};

}  // namespace laggard::agent
