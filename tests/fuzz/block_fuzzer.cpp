// A stored block, or a stored layout, as it comes out of a database that somebody may have damaged: refused,
// or records that hold together and are the same when they are stored again.
#include "daemon/base/limits.h"
#include "daemon/core/breakdown.h"
#include "daemon/core/step_records.h"
#include "proto/codec.h"
#include "tests/fuzz/fuzzer.h"

namespace {

using namespace laggard;
using fuzz::require;

const LayoutTable& known_layouts() {
  static const LayoutTable kLayouts = [] {
    LayoutTable layouts;
    layouts.intern({.stream = {"forward", "backward"}, .counts = {"samples"}});
    layouts.intern({.stream = {"forward"}, .host = {"forward"}, .calls = {"forward"}, .values = {"loss"}});
    layouts.intern({.int_values = {"seed"}});
    return layouts;
  }();
  return kLayouts;
}

void read_all(PackedRecords records, std::uint32_t block) {
  core::StepRecords step(7);
  if (!step.add_block(block, std::move(records))) return;
  require(step.by_rank(known_layouts()).size() == step.size(), "every record is found by its rank");
  core::StageTable stages;
  for (const Rank rank : step.ranks()) {
    require(rank / limits::kRanksPerBlock == block, "a rank stands in its block");
    for (const std::string& stage : step.find(rank, known_layouts())->layout->stream) stages.intern(stage);
  }
  (void)core::break_down(step, known_layouts(), stages);
}

void decode_layout(std::string_view bytes) {
  const std::optional<Layout> layout = codec::decode_layout(bytes);
  if (!layout.has_value()) return;
  require(codec::decode_layout(codec::encode_layout(*layout)) == layout, "a layout reads back as it was");
}

void decode_block(std::string_view bytes, std::uint32_t block) {
  const auto layout_of = [](LayoutId id) { return known_layouts().find(id); };
  PackedRecords records, again;
  if (codec::decode_block(bytes, 7, layout_of, &records).has_value()) return;
  codec::BlockEncoder encoder;
  const std::string stored(encoder.encode(records));
  require(!codec::decode_block(stored, 7, layout_of, &again).has_value(), "what was encoded can be decoded");
  require(encoder.encode(again) == stored, "a block reads back as it was");
  read_all(std::move(records), block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  if (data[0] == 0xff)
    decode_layout(bytes);
  else
    decode_block(bytes, data[0]);
  return 0;
}
