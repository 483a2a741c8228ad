#include "agent/api/step_record.h"

#include <bit>
#include <cstring>

namespace laggard::agent {
namespace {

constexpr std::size_t kHeadWords = sizeof(RecordHead) / sizeof(std::uint64_t);
constexpr std::size_t kStageWords = 4;
constexpr std::size_t kPairWords = 2;
constexpr std::uint64_t kHasStream = std::uint64_t{1} << 32;  // beside a stage's number
constexpr double kNsPerMs = 1e6;

double as_ms(std::int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

}  // namespace

void RecordWriter::begin(const RecordHead& head) {
  head_ = head;
  words_.resize(kHeadWords);
}

void RecordWriter::add_stage(NameId id, const StageTotals& totals) {
  ++head_.stages;
  words_.push_back(id | (totals.has_stream ? kHasStream : 0));
  words_.push_back(static_cast<std::uint64_t>(totals.host_ns));
  words_.push_back(static_cast<std::uint64_t>(totals.calls));
  words_.push_back(std::bit_cast<std::uint64_t>(totals.stream_ms));
}

void RecordWriter::add_count(NameId id, std::int64_t count) {
  ++head_.counts;
  words_.push_back(id);
  words_.push_back(static_cast<std::uint64_t>(count));
}

void RecordWriter::add_value(NameId id, double value) {
  ++head_.values;
  words_.push_back(id);
  words_.push_back(std::bit_cast<std::uint64_t>(value));
}

void RecordWriter::add_samples(std::span<const std::int64_t> samples) {
  head_.samples += samples.size();
  for (const std::int64_t sample : samples) words_.push_back(static_cast<std::uint64_t>(sample));
}

std::span<const std::uint64_t> RecordWriter::finish() {
  std::memcpy(words_.data(), &head_, sizeof head_);
  return words_;
}

RecordHead head_of(std::span<const std::uint64_t> words) {
  RecordHead head;
  std::memcpy(static_cast<void*>(&head), words.data(), sizeof head);
  return head;
}

const ParsedLine& RecordBuilder::build(std::span<const std::uint64_t> words) {
  const RecordHead head = head_of(words);
  update_.kind = LineKind::update;
  update_.step = head.step;
  for (std::vector<double>* column : {&stream_, &host_, &values_}) column->clear();
  for (std::vector<std::int64_t>* column : {&calls_, &counts_}) column->clear();
  shape_.assign({head.stages, head.counts});

  const std::uint64_t* word = words.data() + kHeadWords;
  for (std::uint64_t i = 0; i < head.stages; ++i, word += kStageWords) {
    const bool entered = word[2] > 0, has_stream = (word[0] & kHasStream) != 0;
    shape_.push_back(word[0] << 1 | (entered ? 1 : 0));
    if (has_stream) stream_.push_back(std::bit_cast<double>(word[3]));
    if (!entered) continue;
    host_.push_back(as_ms(static_cast<std::int64_t>(word[1])));
    calls_.push_back(static_cast<std::int64_t>(word[2]));
  }
  for (std::uint64_t i = 0; i < head.counts; ++i, word += kPairWords) {
    shape_.push_back(word[0]);
    counts_.push_back(static_cast<std::int64_t>(word[1]));
  }
  for (std::uint64_t i = 0; i < head.values; ++i, word += kPairWords) {
    shape_.push_back(word[0]);
    values_.push_back(std::bit_cast<double>(word[1]));
  }
  update_.sample_indices.assign(word, word + head.samples);

  update_.doubles.assign(1, as_ms(head.wall_ns));
  for (const std::vector<double>* column : {&stream_, &host_, &values_})
    update_.doubles.insert(update_.doubles.end(), column->begin(), column->end());
  update_.ints = calls_;
  update_.ints.insert(update_.ints.end(), counts_.begin(), counts_.end());
  update_.rest.tags.clear();
  for (std::size_t tag = 0; tag < names_.tags.size(); ++tag)
    if ((head.tags >> tag & 1) != 0) update_.rest.tags.push_back(names_.tags[tag]);

  if (shape_ != last_shape_) {
    name_numbers(words, head);
    last_shape_ = shape_;
  }
  return update_;
}

void RecordBuilder::name_numbers(std::span<const std::uint64_t> words, const RecordHead& head) {
  Layout& layout = update_.layout;
  layout = {};
  ++update_.layout_version;
  const std::uint64_t* word = words.data() + kHeadWords;
  for (std::uint64_t i = 0; i < head.stages; ++i, word += kStageWords) {
    const std::string& name = names_.stages[static_cast<NameId>(word[0])];
    if ((word[0] & kHasStream) != 0) layout.stream.push_back(name);
    if (word[2] == 0) continue;
    layout.host.push_back(name);
    layout.calls.push_back(name);
  }
  for (std::uint64_t i = 0; i < head.counts; ++i, word += kPairWords)
    layout.counts.push_back(names_.counts[word[0]]);
  for (std::uint64_t i = 0; i < head.values; ++i, word += kPairWords)
    layout.values.push_back(names_.values[word[0]]);
}

}  // namespace laggard::agent
