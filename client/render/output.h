// A view in the form that was asked for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/render/view.h"

namespace laggard::client {

enum class Format { table, json, jsonl, csv, markdown };

struct OutputStyle {
  Format format = Format::table;
  bool terminal = false;  ///< the output is one
  bool color = false;
  std::size_t columns = 80;  ///< of the terminal
};

/// The whole text, ending in a line end.
std::string write_view(const View& view, const OutputStyle& style);

}  // namespace laggard::client
