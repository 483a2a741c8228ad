// In which order to make the runs of a comparison.
#include "client/views/views.h"

namespace laggard::client {
namespace {

// ABBA and BAAB in turn: within each, both sides stand at the same place on average, and which side begins
// changes. Of an odd number a pair is left, in the order that the next four would begin with.
std::string balanced_order(std::size_t runs) {
  std::string order;
  for (std::size_t four = 0; order.size() < 2 * runs; ++four) order += four % 2 == 0 ? "ABBA" : "BAAB";
  return order.substr(0, 2 * runs);
}

std::string in_fours(const std::string& order) {
  std::string text;
  for (std::size_t i = 0; i < order.size(); i += 4) text += (i > 0 ? " " : "") + order.substr(i, 4);
  return text;
}

}  // namespace

View plan_view(std::size_t runs) {
  const std::string order = balanced_order(runs);
  Table table{"", {{"place", "run"}, {"side", "side", Align::left}}, {}};
  Json sides = Json::array();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const char* side = order[i] == 'A' ? "base" : "new";
    table.rows.push_back({Cell(static_cast<std::int64_t>(i + 1)), Cell(side)});
    sides.push_back(side);
  }
  Notes notes{{"Make the runs one after the other, on the same machines, in this order."}};
  if (runs % 2 == 0)
    notes.lines.emplace_back(
        "What drifts steadily with time (clocks, temperature, neighbours) then adds the same to both sides.");
  else
    notes.lines.emplace_back(
        "An odd number a side cannot be balanced: one side stands later on average. Take an even one.");
  if (runs == 1) notes.lines.emplace_back("With one run a side run-to-run variation is not measured either.");
  if (runs < 4)
    notes.lines.emplace_back("A rank test at 5 % needs 4 runs a side; 2 are enough for an interval.");
  return {{Facts{{"", in_fours(order) + " (A base, B new)"}}, table, notes},
          table,
          {{"runs_a_side", runs}, {"pattern", order}, {"sides", sides}}};
}

}  // namespace laggard::client
