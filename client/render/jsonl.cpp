#include <nlohmann/json.hpp>

#include "client/render/json_text.h"
#include "client/render/text.h"
#include "client/render/writers.h"

namespace laggard::client {
namespace {

nlohmann::ordered_json value_of(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      cell.value);
}

}  // namespace

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return printable_json(json.dump(indent, ' ', false, kReplace));
}

nlohmann::ordered_json json_rows(const Table& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    auto object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (table.columns[i].show != Show::people) object[table.columns[i].key] = value_of(row[i]);
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string json_lines(const Table& table) {
  std::string out;
  for (const auto& row : json_rows(table)) out += json_text(row, -1) + '\n';
  return out;
}

}  // namespace laggard::client
