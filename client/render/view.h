// What a command has to show, before anybody chose how.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "client/render/table.h"

namespace laggard::client {

/// One line of a screen: a label and what is to be said. Texts may hold names of unknown origin.
struct Fact {
  std::string label;  ///< "" continues the fact above; without any label, the facts are plain lines
  std::string text;
  Tone tone = Tone::plain;
};
using Facts = std::vector<Fact>;

/// Sentences that stand under the figures.
struct Notes {
  std::vector<std::string> lines;
};

using Block = std::variant<Facts, Table, Notes>;

/// People see `screen`, CSV and JSON lines hold `rows`, JSON is what the collector answered.
struct View {
  std::vector<Block> screen;
  Table rows;
  nlohmann::ordered_json json;
};

}  // namespace laggard::client
