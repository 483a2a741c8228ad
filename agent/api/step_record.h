// A step record as it stands in the ring.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "agent/api/names.h"
#include "agent/parsed_line.h"

namespace laggard::agent {

/// What was measured of one stage in one step.
struct StageTotals {
  std::int64_t host_ns = 0;
  std::int64_t calls = 0;  ///< 0: it was not entered, and has no host time
  double stream_ms = 0;
  bool has_stream = false;
};

/// The words that come before a record's numbers.
struct RecordHead {
  std::uint64_t ordinal = 0;  ///< counts the records of the process from 1, so that a gap tells of lost ones
  std::int64_t step = 0;
  std::int64_t wall_ns = 0;
  std::uint64_t tags = 0;                                         ///< a bit for each tag
  std::uint64_t stages = 0, counts = 0, values = 0, samples = 0;  ///< how many of each follow
};

/// Writes a record's words, which keep their memory from one record to the next.
class RecordWriter {
 public:
  void begin(const RecordHead& head);
  void add_stage(NameId id, const StageTotals& totals);
  void add_count(NameId id, std::int64_t count);
  void add_value(NameId id, double value);
  void add_samples(std::span<const std::int64_t> samples);
  /// Valid until the next begin().
  std::span<const std::uint64_t> finish();

 private:
  RecordHead head_;
  std::vector<std::uint64_t> words_;
};

RecordHead head_of(std::span<const std::uint64_t> words);

/// Makes updates of a rank out of records' words.
class RecordBuilder {
 public:
  RecordBuilder(Rank rank, const Names& names) : names_(names) { update_.rank = rank; }
  /// Valid until the next call.
  const ParsedLine& build(std::span<const std::uint64_t> words);

 private:
  void name_numbers(std::span<const std::uint64_t> words, const RecordHead& head);

  const Names& names_;
  ParsedLine update_;
  std::vector<std::uint64_t> shape_, last_shape_;  // which numbers there are: the layout as numbers
  std::vector<double> stream_, host_, values_;
  std::vector<std::int64_t> calls_, counts_;
};

}  // namespace laggard::agent
