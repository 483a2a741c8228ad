// All records of one step of one attempt.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/core/model.h"

namespace laggard::core {

/// The records of one step, in blocks of limits::kRanksPerBlock ranks: the unit that is stored.
class StepRecords {
 public:
  explicit StepRecords(Step step) : step_(step) {}
  /// An empty step with room for as many records as `like` has: steps of a job resemble each other.
  StepRecords(Step step, const StepRecords& like);

  /// Adds a rank's record; the rank must not be there yet.
  void add(const RecordView& record, LayoutId layout);
  /// Takes a block as it was stored. False, and nothing is taken, when one of its ranks is there already
  /// or belongs to another block.
  bool add_block(std::uint32_t block, PackedRecords records);

  bool contains(Rank rank) const { return index_of(rank) != kEmpty; }
  std::optional<RecordView> find(Rank rank, const LayoutTable& layouts) const;
  Step step() const { return step_; }
  std::size_t size() const { return size_; }
  /// Ranks present, ascending.
  std::vector<Rank> ranks() const;
  /// Every record, ranks ascending: figures must not depend on the order of arrival.
  std::vector<RecordView> by_rank(const LayoutTable& layouts) const;
  using Block = std::shared_ptr<const PackedRecords>;
  /// Block b holds ranks b * kRanksPerBlock and up; it can be empty. Whoever keeps a block keeps it as it is
  /// now: a later add() leaves it alone.
  std::size_t block_count() const { return blocks_.size(); }
  Block block(std::size_t b) const { return blocks_[b]; }
  std::size_t byte_size() const;
  /// Bytes that the block of this rank holds.
  std::size_t block_bytes(Rank rank) const;

 private:
  static constexpr std::uint32_t kEmpty = 0xffff'ffff;
  std::uint32_t index_of(Rank rank) const;
  void make_room(std::size_t block);

  Step step_;
  std::size_t size_ = 0;
  std::vector<std::shared_ptr<PackedRecords>> blocks_;
  std::vector<std::vector<std::uint32_t>> slots_;  // per block, by rank within it: the record's index
};

}  // namespace laggard::core
