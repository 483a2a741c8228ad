#include "agent/special_numbers.h"

#include <algorithm>
#include <array>
#include <limits>

namespace laggard::agent {
namespace {

struct Token {
  std::string_view text;
  std::string_view stand_in;
  double number;
};

constexpr std::array kTokens{
    Token{"NaN", "0.0", std::numeric_limits<double>::quiet_NaN()},
    Token{"Infinity", "0.000000", std::numeric_limits<double>::infinity()},
    Token{"-Infinity", "-0.000000", -std::numeric_limits<double>::infinity()},
};

bool stands_alone(std::string_view line, std::size_t at, std::size_t size) {
  constexpr std::string_view kBefore = ":,[ \t";
  constexpr std::string_view kAfter = ",]} \t";
  return at > 0 && kBefore.find(line[at - 1]) != std::string_view::npos && at + size < line.size() &&
         kAfter.find(line[at + size]) != std::string_view::npos;
}

const Token* token_at(std::string_view line, std::size_t at) {
  for (const Token& token : kTokens)
    if (line.substr(at, token.text.size()) == token.text && stands_alone(line, at, token.text.size()))
      return &token;
  return nullptr;
}

}  // namespace

void SpecialNumbers::take_from(std::string& line) {
  places_.clear();
  if (line.find("NaN") == std::string::npos && line.find("Infinity") == std::string::npos) return;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == 'N' || c == 'I' || c == '-')) {
      if (const Token* token = token_at(line, i)) {
        line.replace(i, token->text.size(), token->stand_in);
        places_.push_back({i, token->number});
        i += token->text.size() - 1;
      }
    }
  }
}

const double* SpecialNumbers::find(std::size_t offset) const {
  const auto it = std::ranges::lower_bound(places_, offset, {}, &Place::offset);
  return it != places_.end() && it->offset == offset ? &it->number : nullptr;
}

}  // namespace laggard::agent
