// The step record and how many of them are packed together.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace laggard {

using Rank = std::uint32_t;
using Step = std::int64_t;
using LayoutId = std::uint32_t;

/// The names of a record's numbers in the order in which they stand. Records of one shape share a layout.
struct Layout {
  std::vector<std::string> stream;  ///< stages with a stream time
  std::vector<std::string> host;    ///< stages with a host time
  std::vector<std::string> calls;   ///< stages with a call count
  std::vector<std::string> counts;
  std::vector<std::string> int_values;
  std::vector<std::string> values;

  bool operator==(const Layout&) const = default;
  /// Doubles a record of this layout has: wall, stream times, host times, values.
  std::size_t double_count() const { return 1 + stream.size() + host.size() + values.size(); }
  /// Integers a record of this layout has: calls, counts, integer values.
  std::size_t int_count() const { return calls.size() + counts.size() + int_values.size(); }
  std::size_t name_count() const { return double_count() - 1 + int_count(); }
};

struct Histogram {
  std::string name;
  std::vector<std::pair<std::string, std::int64_t>> bins;
  bool operator==(const Histogram&) const = default;
};

/// What few records have, or what differs from record to record.
struct RecordRest {
  std::vector<Histogram> histograms;
  std::vector<std::string> tags;
  /// A JSON object, keys sorted, of everything the typed fields cannot hold; "" when there is nothing. A
  /// text where a number belongs stands here too, under the object it came in.
  std::string extra;
  bool operator==(const RecordRest&) const = default;
  bool empty() const { return histograms.empty() && tags.empty() && extra.empty(); }
};

/// One step record: what one rank measured in one step. It views memory of whoever holds the record.
struct RecordView {
  Step step = 0;
  Rank rank = 0;
  const Layout* layout = nullptr;
  std::span<const double> doubles;  ///< layout->double_count() of them, times in ms
  std::span<const std::int64_t> ints;
  std::span<const std::int64_t> sample_indices;
  const RecordRest* rest = nullptr;  ///< null when the record has none

  double wall_ms() const { return doubles[0]; }
  std::span<const double> stream_ms() const { return doubles.subspan(1, layout->stream.size()); }
  std::span<const double> host_ms() const {
    return doubles.subspan(1 + layout->stream.size(), layout->host.size());
  }
  std::span<const double> values() const { return doubles.last(layout->values.size()); }
  std::span<const std::int64_t> calls() const { return ints.first(layout->calls.size()); }
  std::span<const std::int64_t> counts() const {
    return ints.subspan(layout->calls.size(), layout->counts.size());
  }
  std::span<const std::int64_t> int_values() const { return ints.last(layout->int_values.size()); }
};

/// A hash of all that a record says. It is the same whatever the order of the record's keys, and differs
/// between absent, null, negative and every non-finite value.
std::uint64_t content_hash(const RecordView& record);

/// Every layout in use, each once, with a small number for each. Addresses of layouts stay valid.
class LayoutTable {
 public:
  /// The id of this layout, a new one when it was not known. Ids count up from 0.
  LayoutId intern(const Layout& layout);
  /// The layout of an id; nullptr when there is none.
  const Layout* find(LayoutId id) const { return id < layouts_.size() ? &layouts_[id] : nullptr; }
  /// The id of a layout that is known already.
  std::optional<LayoutId> id_of(const Layout& layout) const;
  const Layout& operator[](LayoutId id) const { return layouts_[id]; }
  std::size_t size() const { return layouts_.size(); }

 private:
  std::deque<Layout> layouts_;
  std::unordered_multimap<std::uint64_t, LayoutId> by_hash_;
};

/// Records packed into columns. The layouts they refer to are numbered by a table beside them: a source's
/// own list in a batch, the LayoutTable in the collector and in the store.
class PackedRecords {
 public:
  /// What travels and what is stored. A record's share of `doubles` and `ints` follows from its layout.
  struct Columns {
    std::vector<Step> steps;
    std::vector<Rank> ranks;
    std::vector<LayoutId> layouts;
    std::vector<double> doubles;
    std::vector<std::int64_t> ints;
    std::vector<std::uint32_t> sample_counts;  ///< per record: how many sample indices it has
    std::vector<std::int64_t> sample_indices;
    std::vector<std::uint32_t> rest_of;  ///< the records that have a rest, ascending
    std::vector<RecordRest> rests;       ///< one for each entry of rest_of
  };
  using LayoutOf = std::function<const Layout*(LayoutId)>;

  /// Takes columns that came from outside. Returns why they do not fit together, nothing when they do (then
  /// and only then the records are taken). `layout_of` gives the layout of an id, nullptr for an unknown one.
  [[nodiscard]] std::optional<std::string> assign(Columns columns, const LayoutOf& layout_of);

  void append(const RecordView& record, LayoutId layout);
  /// Makes room for as much as the other one holds.
  void reserve_like(const PackedRecords& other);
  void clear();

  std::size_t size() const { return columns_.ranks.size(); }
  bool empty() const { return columns_.ranks.empty(); }
  Rank rank(std::size_t i) const { return columns_.ranks[i]; }
  Step step(std::size_t i) const { return columns_.steps[i]; }
  LayoutId layout_id(std::size_t i) const { return columns_.layouts[i]; }
  /// True when record `i` has as many numbers as this layout names.
  bool fits(std::size_t i, const Layout& layout) const;
  /// Record `i`; `layout` must be the one that layout_id(i) stands for.
  RecordView view(std::size_t i, const Layout& layout) const;
  const Columns& columns() const { return columns_; }
  /// Bytes held, for memory bounds; text in rests is counted roughly.
  std::size_t byte_size() const;

 private:
  struct Offsets {
    std::uint32_t doubles, ints, samples;
    std::int32_t rest;  // -1: none
  };
  Columns columns_;
  std::vector<Offsets> offsets_;
  std::size_t rest_bytes_ = 0;
};

}  // namespace laggard
