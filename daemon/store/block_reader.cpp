#include "daemon/store/block_reader.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/store/rows.h"
#include "proto/codec.h"

namespace laggard::store {
namespace {

// Takes the rest of a block's row and returns its bytes' number. The bytes are decoded while the row is
// there, so they are never copied.
std::size_t add_block(Rows& rows, std::int64_t block, const LayoutTable& layouts, core::StepRecords* step) {
  PackedRecords records;
  rows.integer();  // the number of ranks, for people
  const std::string_view bytes = rows.blob();
  const std::optional<std::string> wrong = codec::decode_block(
      bytes, step->step(), [&](LayoutId id) { return layouts.find(id); }, &records);
  const auto where = [&] {
    return "step " + std::to_string(step->step()) + ", block " + std::to_string(block) + ": ";
  };
  if (wrong.has_value()) rows.damaged(where() + *wrong);
  if (block < 0 || block > limits::kMaxRank / static_cast<std::int64_t>(limits::kRanksPerBlock) ||
      !step->add_block(static_cast<std::uint32_t>(block), std::move(records)))
    rows.damaged(where() + "ranks that do not belong there");
  return bytes.size();
}

}  // namespace

BlockReader::BlockReader(Database& database)
    : database_(database),
      select_layouts_(database, kLayouts.select("WHERE layout_id >= ? ORDER BY layout_id")),
      select_blocks_(database, kBlocks.select("WHERE attempt_id = ? AND step BETWEEN ? AND ? "
                                              "ORDER BY step, block")) {}

const LayoutTable& BlockReader::layouts() {
  Rows rows = select_layouts_.query(layouts_.size());
  while (rows.next()) {
    const std::int64_t id = rows.integer();
    const std::optional<Layout> layout = codec::decode_layout(rows.blob());
    if (!layout.has_value() || layouts_.intern(*layout) != id) rows.damaged("layout " + std::to_string(id));
  }
  return layouts_;
}

std::unique_ptr<core::StepRecords> BlockReader::load(core::AttemptId attempt, Step step) {
  std::vector<core::StepRecords> found = slice(attempt, step, step, std::numeric_limits<std::size_t>::max());
  return found.empty() ? nullptr : std::make_unique<core::StepRecords>(std::move(found.front()));
}

std::vector<core::StepRecords> BlockReader::slice(core::AttemptId attempt, Step from, Step to,
                                                  std::size_t bytes) {
  // Layouts are never newer than the blocks that use them when both are read in one transaction.
  std::optional<Transaction> transaction;
  if (!database_.in_transaction()) transaction.emplace(database_, Transaction::Kind::read);
  layouts();
  std::vector<core::StepRecords> steps;
  std::size_t read = 0;
  Rows rows = select_blocks_.query(attempt, from, to);
  while (rows.next()) {
    rows.integer();  // the attempt
    const Step step = rows.integer();
    if (steps.empty() || steps.back().step() != step) {
      if (read > bytes) break;
      steps.emplace_back(step);
    }
    const std::int64_t block = rows.integer();
    read += add_block(rows, block, layouts_, &steps.back());
  }
  return steps;
}

}  // namespace laggard::store
