#include "agent/line_parser.h"

#include <nlohmann/json.hpp>

namespace laggard::agent {
namespace {

constexpr std::size_t kMaxPieces = 16;  // bounds the work that one hostile line makes

// NUL bytes are what a truncated file has before the place where its writer goes on.
constexpr std::string_view kSpace(" \t\r\n\0", 5);

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string_view without_table_pipes(std::string_view text) {
  if (text.starts_with('|')) text.remove_prefix(1);
  if (text.ends_with('|')) text.remove_suffix(1);
  return trimmed(text);
}

bool speaks_of_a_record(std::string_view text) {
  return text.find('{') != std::string_view::npos && text.find("\"type\"") != std::string_view::npos;
}

bool is_escaped(std::string_view text, std::size_t quote) {
  std::size_t backslashes = 0;
  while (backslashes < quote && text[quote - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 1;
}

// Where the object begins that this brace closes; npos when none does. It goes backwards, because what stands
// before a whole record may be torn anywhere, and a record is whole seen from its end.
std::size_t object_begin(std::string_view text, std::size_t closing_brace) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = closing_brace + 1; i-- > 0;) {
    const char c = text[i];
    if (c == '"' && !is_escaped(text, i))
      in_string = !in_string;
    else if (!in_string && c == '}')
      ++depth;
    else if (!in_string && c == '{' && --depth == 0)
      return i;
  }
  return std::string_view::npos;
}

}  // namespace

void LineParser::start(std::string_view line) {
  line_ = without_table_pipes(trimmed(line));
  pieces_.clear();
}

const ParsedLine* LineParser::next() {
  if (!line_.empty()) {
    if (line_.front() == '{' && reader_.read(line_, &parsed_) == RecordReader::Result::read) {
      line_ = {};
      return &parsed_;
    }
    split();
    if (pieces_.empty()) {
      const bool json = line_.front() != '{' && nlohmann::json::accept(line_);
      line_ = {};
      return json ? outcome(LineKind::rejected, "no object") : outcome(LineKind::foreign, "no record");
    }
    line_ = {};
  }
  if (pieces_.empty()) return nullptr;
  const Piece piece = pieces_.back();
  pieces_.pop_back();
  if (piece.object && reader_.read(piece.text, &parsed_) == RecordReader::Result::read) return &parsed_;
  return outcome(LineKind::rejected, "torn record");
}

void LineParser::split() {
  std::size_t text_end = line_.size();  // of the text between the next object and the one behind it
  std::size_t search = line_.size();
  while (pieces_.size() < kMaxPieces) {
    const std::size_t close = search == 0 ? std::string_view::npos : line_.rfind('}', search - 1);
    const std::size_t open = close == std::string_view::npos ? close : object_begin(line_, close);
    if (open == std::string_view::npos) break;
    search = open;
    const std::string_view object = line_.substr(open, close + 1 - open);
    if (!speaks_of_a_record(object)) continue;  // an inner object of a torn record, or foreign text
    const std::string_view behind = line_.substr(close + 1, text_end - close - 1);
    if (speaks_of_a_record(behind)) pieces_.push_back({behind, false});
    pieces_.push_back({object, true});
    text_end = open;
  }
  const std::string_view first = line_.substr(0, text_end);
  if (speaks_of_a_record(first)) pieces_.push_back({first, false});
}

const ParsedLine* LineParser::outcome(LineKind kind, std::string_view reason) {
  parsed_.kind = kind;
  parsed_.reason = reason;
  return &parsed_;
}

}  // namespace laggard::agent
