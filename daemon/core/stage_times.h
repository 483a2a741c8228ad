// The times of one step as tables of stages and records.
#pragma once

#include <span>
#include <vector>

#include "daemon/base/value.h"
#include "daemon/core/model.h"

namespace laggard::core {

/// Times in ms: a row for each stage, a column for each record.
class Cells {
 public:
  Cells(std::size_t stages, std::size_t records) : records_(records), cells_(stages * records, kAbsent) {}
  double& at(StageId stage, std::size_t record) { return cells_[stage * records_ + record]; }
  double at(StageId stage, std::size_t record) const { return cells_[stage * records_ + record]; }
  std::span<double> row(StageId stage) { return std::span(cells_).subspan(stage * records_, records_); }
  std::span<const double> row(StageId stage) const {
    return std::span(cells_).subspan(stage * records_, records_);
  }
  std::size_t records() const { return records_; }

 private:
  std::size_t records_;
  std::vector<double> cells_;
};

/// A stage's time less its children's, where both are valid. A parent one of whose children is null or
/// invalid on a record has no known exclusive time there: kNull.
struct StageTimes {
  Cells inclusive;
  Cells exclusive;
};

/// What the records say on one clock.
StageTimes stage_times_on(Clock clock, std::span<const RecordView> records, const StageTable& stages);

/// True when any record has a valid time of this stage.
bool has_valid(const Cells& cells, StageId stage);

/// The times that own times are made of: each stage on one clock, the same for all ranks. That is its stream
/// time; but an input stage that only the host timed (a data loader), outside of all that has stream times,
/// is there with its host time. Of other stages a host time alone can be waiting for the device.
StageTimes times_compared(const StageTimes& stream, const StageTimes& host, const StageTable& stages);

}  // namespace laggard::core
