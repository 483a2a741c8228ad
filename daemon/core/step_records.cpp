#include "daemon/core/step_records.h"

#include "daemon/base/limits.h"

namespace laggard::core {

using limits::kRanksPerBlock;

StepRecords::StepRecords(Step step, const StepRecords& like) : step_(step) {
  for (std::size_t b = 0; b < like.blocks_.size(); ++b) {
    make_room(b);
    blocks_[b]->reserve_like(*like.blocks_[b]);
    slots_[b].reserve(like.slots_[b].size());
  }
}

void StepRecords::add(const RecordView& record, LayoutId layout) {
  const std::size_t block = record.rank / kRanksPerBlock;
  make_room(block);
  const std::size_t slot = record.rank % kRanksPerBlock;
  if (slot >= slots_[block].size()) slots_[block].resize(slot + 1, kEmpty);
  std::shared_ptr<PackedRecords>& records = blocks_[block];
  if (records.use_count() > 1) records = std::make_shared<PackedRecords>(*records);
  slots_[block][slot] = static_cast<std::uint32_t>(records->size());
  records->append(record, layout);
  ++size_;
}

void StepRecords::make_room(std::size_t block) {
  while (block >= blocks_.size()) blocks_.push_back(std::make_shared<PackedRecords>());
  if (block >= slots_.size()) slots_.resize(block + 1);
}

bool StepRecords::add_block(std::uint32_t block, PackedRecords records) {
  make_room(block);
  if (!blocks_[block]->empty()) return false;
  std::vector<std::uint32_t> slots;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Rank rank = records.rank(i);
    if (rank / kRanksPerBlock != block) return false;
    const std::size_t slot = rank % kRanksPerBlock;
    if (slot >= slots.size()) slots.resize(slot + 1, kEmpty);
    if (slots[slot] != kEmpty) return false;
    slots[slot] = static_cast<std::uint32_t>(i);
  }
  size_ += records.size();
  blocks_[block] = std::make_shared<PackedRecords>(std::move(records));
  slots_[block] = std::move(slots);
  return true;
}

std::uint32_t StepRecords::index_of(Rank rank) const {
  const std::size_t block = rank / kRanksPerBlock;
  if (block >= slots_.size()) return kEmpty;
  const std::size_t slot = rank % kRanksPerBlock;
  return slot < slots_[block].size() ? slots_[block][slot] : kEmpty;
}

std::optional<RecordView> StepRecords::find(Rank rank, const LayoutTable& layouts) const {
  const std::uint32_t index = index_of(rank);
  if (index == kEmpty) return std::nullopt;
  const PackedRecords& block = *blocks_[rank / kRanksPerBlock];
  return block.view(index, layouts[block.layout_id(index)]);
}

std::vector<Rank> StepRecords::ranks() const {
  std::vector<Rank> ranks;
  ranks.reserve(size_);
  for (std::size_t block = 0; block < slots_.size(); ++block)
    for (std::size_t slot = 0; slot < slots_[block].size(); ++slot)
      if (slots_[block][slot] != kEmpty) ranks.push_back(static_cast<Rank>(block * kRanksPerBlock + slot));
  return ranks;
}

std::vector<RecordView> StepRecords::by_rank(const LayoutTable& layouts) const {
  std::vector<RecordView> views;
  views.reserve(size_);
  for (std::size_t block = 0; block < slots_.size(); ++block)
    for (const std::uint32_t index : slots_[block])
      if (index != kEmpty)
        views.push_back(blocks_[block]->view(index, layouts[blocks_[block]->layout_id(index)]));
  return views;
}

std::size_t StepRecords::byte_size() const {
  std::size_t bytes = sizeof *this;
  for (const auto& block : blocks_) bytes += block->byte_size();
  for (const auto& slots : slots_) bytes += slots.size() * sizeof(std::uint32_t);
  return bytes;
}

std::size_t StepRecords::block_bytes(Rank rank) const {
  const std::size_t block = rank / kRanksPerBlock;
  return block < blocks_.size() ? blocks_[block]->byte_size() : 0;
}

}  // namespace laggard::core
