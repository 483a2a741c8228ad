#include "daemon/base/record.h"

#include <xxhash.h>

#include <bit>
#include <string_view>

namespace laggard {
namespace {

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

// Where in a record a number stands; part of its hash, so that equal numbers in two places differ.
enum Place : std::uint64_t {
  stream_place = 1,
  host_place,
  calls_place,
  counts_place,
  int_values_place,
  values_place,
  wall_place,
  samples_place,
  histogram_place,
  tag_place,
  extra_place
};

std::uint64_t hash_number(std::uint64_t name_hash, std::uint64_t bits) {
  return XXH3_64bits_withSeed(&bits, sizeof bits, name_hash);
}

void add_doubles(std::uint64_t& sum, Place place, const std::vector<std::string>& names,
                 std::span<const double> numbers) {
  for (std::size_t i = 0; i < names.size(); ++i)
    sum += hash_number(hash_text(names[i], place), std::bit_cast<std::uint64_t>(numbers[i]));
}

void add_ints(std::uint64_t& sum, Place place, const std::vector<std::string>& names,
              std::span<const std::int64_t> numbers) {
  for (std::size_t i = 0; i < names.size(); ++i)
    sum += hash_number(hash_text(names[i], place), static_cast<std::uint64_t>(numbers[i]));
}

std::size_t rest_byte_size(const RecordRest& rest) {
  std::size_t bytes = sizeof rest + rest.extra.size();
  for (const Histogram& histogram : rest.histograms)
    bytes += sizeof histogram + histogram.bins.size() * sizeof(histogram.bins[0]);
  return bytes;
}

}  // namespace

std::uint64_t content_hash(const RecordView& record) {
  const Layout& layout = *record.layout;
  // A sum, because the order of the keys must not matter.
  std::uint64_t sum = hash_number(wall_place, std::bit_cast<std::uint64_t>(record.wall_ms()));
  add_doubles(sum, stream_place, layout.stream, record.stream_ms());
  add_doubles(sum, host_place, layout.host, record.host_ms());
  add_doubles(sum, values_place, layout.values, record.values());
  add_ints(sum, calls_place, layout.calls, record.calls());
  add_ints(sum, counts_place, layout.counts, record.counts());
  add_ints(sum, int_values_place, layout.int_values, record.int_values());
  sum +=
      XXH3_64bits_withSeed(record.sample_indices.data(), record.sample_indices.size_bytes(), samples_place);
  if (record.rest != nullptr) {
    for (const Histogram& histogram : record.rest->histograms) {
      const std::uint64_t name = hash_text(histogram.name, histogram_place);
      sum += name;
      for (const auto& [key, count] : histogram.bins)
        sum += hash_number(hash_text(key, name), static_cast<std::uint64_t>(count));
    }
    for (const std::string& tag : record.rest->tags) sum += hash_text(tag, tag_place);
    if (!record.rest->extra.empty()) sum += hash_text(record.rest->extra, extra_place);
  }
  return sum;
}

namespace {

std::uint64_t hash_layout(const Layout& layout) {
  std::uint64_t hash = 0;
  for (const auto* names :
       {&layout.stream, &layout.host, &layout.calls, &layout.counts, &layout.int_values, &layout.values}) {
    hash = hash_number(hash, names->size());
    for (const std::string& name : *names) hash = hash_text(name, hash);
  }
  return hash;
}

}  // namespace

std::optional<LayoutId> LayoutTable::id_of(const Layout& layout) const {
  const auto [begin, end] = by_hash_.equal_range(hash_layout(layout));
  for (auto it = begin; it != end; ++it)
    if (layouts_[it->second] == layout) return it->second;
  return std::nullopt;
}

LayoutId LayoutTable::intern(const Layout& layout) {
  if (const auto known = id_of(layout)) return *known;
  const auto id = static_cast<LayoutId>(layouts_.size());
  layouts_.push_back(layout);
  by_hash_.emplace(hash_layout(layout), id);
  return id;
}

std::optional<std::string> PackedRecords::assign(Columns columns, const LayoutOf& layout_of) {
  const std::size_t n = columns.ranks.size();
  if (columns.steps.size() != n || columns.layouts.size() != n || columns.sample_counts.size() != n)
    return "columns of different length";
  if (columns.rest_of.size() != columns.rests.size()) return "rests without their records";

  std::vector<Offsets> offsets;
  offsets.reserve(n);
  std::size_t doubles = 0, ints = 0, samples = 0, rest = 0, rest_bytes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Layout* layout = layout_of(columns.layouts[i]);
    if (layout == nullptr) return "a record of an unknown layout";
    Offsets at{static_cast<std::uint32_t>(doubles), static_cast<std::uint32_t>(ints),
               static_cast<std::uint32_t>(samples), -1};
    if (rest < columns.rest_of.size() && columns.rest_of[rest] == i) {
      rest_bytes += rest_byte_size(columns.rests[rest]);
      at.rest = static_cast<std::int32_t>(rest++);
    }
    offsets.push_back(at);
    doubles += layout->double_count();
    ints += layout->int_count();
    samples += columns.sample_counts[i];
  }
  if (doubles != columns.doubles.size() || ints != columns.ints.size() ||
      samples != columns.sample_indices.size() || rest != columns.rests.size())
    return "columns that do not fit their layouts";
  columns_ = std::move(columns);
  offsets_ = std::move(offsets);
  rest_bytes_ = rest_bytes;
  return std::nullopt;
}

void PackedRecords::append(const RecordView& record, LayoutId layout) {
  Offsets at{static_cast<std::uint32_t>(columns_.doubles.size()),
             static_cast<std::uint32_t>(columns_.ints.size()),
             static_cast<std::uint32_t>(columns_.sample_indices.size()), -1};
  if (record.rest != nullptr && !record.rest->empty()) {
    at.rest = static_cast<std::int32_t>(columns_.rests.size());
    columns_.rest_of.push_back(static_cast<std::uint32_t>(size()));
    columns_.rests.push_back(*record.rest);
    rest_bytes_ += rest_byte_size(*record.rest);
  }
  columns_.steps.push_back(record.step);
  columns_.ranks.push_back(record.rank);
  columns_.layouts.push_back(layout);
  columns_.doubles.insert(columns_.doubles.end(), record.doubles.begin(), record.doubles.end());
  columns_.ints.insert(columns_.ints.end(), record.ints.begin(), record.ints.end());
  columns_.sample_counts.push_back(static_cast<std::uint32_t>(record.sample_indices.size()));
  columns_.sample_indices.insert(columns_.sample_indices.end(), record.sample_indices.begin(),
                                 record.sample_indices.end());
  offsets_.push_back(at);
}

void PackedRecords::reserve_like(const PackedRecords& other) {
  const auto reserve = [](auto& mine, const auto& theirs) { mine.reserve(theirs.size()); };
  reserve(columns_.steps, other.columns_.steps);
  reserve(columns_.ranks, other.columns_.ranks);
  reserve(columns_.layouts, other.columns_.layouts);
  reserve(columns_.doubles, other.columns_.doubles);
  reserve(columns_.ints, other.columns_.ints);
  reserve(columns_.sample_counts, other.columns_.sample_counts);
  reserve(columns_.sample_indices, other.columns_.sample_indices);
  reserve(offsets_, other.offsets_);
}

void PackedRecords::clear() { *this = PackedRecords(); }

bool PackedRecords::fits(std::size_t i, const Layout& layout) const {
  const bool last = i + 1 == offsets_.size();
  const std::size_t doubles = last ? columns_.doubles.size() : offsets_[i + 1].doubles;
  const std::size_t ints = last ? columns_.ints.size() : offsets_[i + 1].ints;
  return doubles - offsets_[i].doubles == layout.double_count() &&
         ints - offsets_[i].ints == layout.int_count();
}

RecordView PackedRecords::view(std::size_t i, const Layout& layout) const {
  const Offsets& at = offsets_[i];
  return {.step = columns_.steps[i],
          .rank = columns_.ranks[i],
          .layout = &layout,
          .doubles = std::span(columns_.doubles).subspan(at.doubles, layout.double_count()),
          .ints = std::span(columns_.ints).subspan(at.ints, layout.int_count()),
          .sample_indices = std::span(columns_.sample_indices).subspan(at.samples, columns_.sample_counts[i]),
          .rest = at.rest < 0 ? nullptr : &columns_.rests[static_cast<std::size_t>(at.rest)]};
}

std::size_t PackedRecords::byte_size() const {
  return columns_.doubles.size() * sizeof(double) +
         (columns_.ints.size() + columns_.sample_indices.size()) * sizeof(std::int64_t) +
         size() * (sizeof(Step) + 3 * sizeof(std::uint32_t) + sizeof(Offsets)) + rest_bytes_;
}

}  // namespace laggard
