// The one table model: every output form is written from it.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/render/ansi.h"

namespace laggard::client {

inline constexpr int kShortest = -1;  ///< as many digits as reading the number back needs

/// A value of a table. Without a value it is "-" for people and nothing (or null) for programs.
struct Cell {
  std::variant<std::monostate, std::string, std::int64_t, double, bool> value;
  int digits = kShortest;  ///< of a double, for people; programs always get all of them
  std::string note;        ///< behind the value, for people: "(18 of 20)"
  int indent = 0;          ///< depth in a tree, for people
  Tone tone = Tone::plain;

  Cell() = default;
  Cell(std::string text, Tone with_tone = Tone::plain) : value(std::move(text)), tone(with_tone) {}
  Cell(const char* text) : value(std::string(text)) {}
  Cell(std::int64_t number) : value(number) {}
  Cell(double number, int with_digits) : value(number), digits(with_digits) {}
  template <std::same_as<bool> Bool>  // no pointer, and no other number
  Cell(Bool truth) : value(truth) {}
};

enum class Align { left, right };
/// Who sees a column: everybody, people with a wide enough terminal, people only, programs only.
enum class Show { always, wide, people, programs };

struct Column {
  std::string key;    ///< in CSV and JSON lines; the unit is its suffix: "wall_ms"
  std::string title;  ///< for people, with its unit
  Align align = Align::right;
  Show show = Show::always;
};

struct Table {
  std::string title;  ///< "" for none
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  ///< each as long as columns
};

}  // namespace laggard::client
