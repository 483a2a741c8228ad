#include "agent/record_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "agent/json_line.h"
#include "agent/key_writer.h"
#include "daemon/base/limits.h"
#include "daemon/base/value.h"

namespace laggard::agent {
namespace {

namespace ondemand = simdjson::ondemand;
using nlohmann::json;

constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53;
constexpr std::size_t kLongestInteger = 19;  // digits of one of 64 bits

// The integer of a key; nothing when there is none, or none between the two bounds.
std::optional<std::int64_t> integer_of(const json& object, const char* key, std::int64_t least,
                                       std::int64_t most) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return std::nullopt;
  if (it->is_number_unsigned() && it->get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    return std::nullopt;
  const auto number = it->get<std::int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

// Of a config or an end without a usable rank. An integer of more than 64 bits has become a text.
const char* why_no_rank(const json& object) {
  const auto it = object.find("rank");
  if (it == object.end()) return "no rank";
  const bool large = it->is_string() && it->get_ref<const std::string&>().size() >= kLongestInteger &&
                     it->get_ref<const std::string&>().find_first_not_of("-0123456789") == std::string::npos;
  return it->is_number_integer() || large ? "rank out of range" : "rank is no integer";
}

}  // namespace

// Reads with simdjson's on-demand parser, whose errors arrive as exceptions and mean that the text is no
// JSON. A key that occurs twice is noticed only after its first occurrence was used: the reader then goes
// over the object again and leaves the earlier ones out, so that the last one wins.
class RecordReader::Impl {
 public:
  Result read(std::string_view text, ParsedLine* out);

 private:
  using Integers = std::vector<std::int64_t>;
  // One of a record's four objects of numbers, with its part of the layout.
  struct Section {
    std::vector<std::string> Layout::*names;
    KeyWriter keys = {};
    bool seen = false;
  };

  Result read_typed(ParsedLine* out);
  void read_update(ParsedLine* out);
  void read_update_fields();
  void read_update_field(std::string_view key, ondemand::value value);
  void read_other(const json& object, ParsedLine* out);
  void finish_update();

  template <typename Use>
  bool each_field(ondemand::object object, KeyWriter& writer, std::vector<std::string>* keys, Use&& use);
  double time_of(ondemand::value value, std::string_view section, std::string_view name);
  json& misfit(std::string_view section, std::string_view name);
  void read_times(std::string_view key, ondemand::value value, Section& section, std::vector<double>& times);
  void read_integers(std::string_view key, ondemand::value value, Section& section, Integers& integers);
  void read_top_level(std::string_view key, ondemand::value value);
  void read_histogram(std::string_view key, ondemand::object object);
  Histogram& next_histogram(std::string_view name);
  void read_samples(std::string_view key, ondemand::value value);
  void read_tags(std::string_view key, ondemand::value value);
  void refuse(std::string_view reason) {
    if (refused_.empty()) refused_ = reason;
  }

  JsonLine line_;
  ondemand::document* document_ = nullptr;  // of line_
  std::vector<const char*> skipped_;        // places of earlier occurrences of a key

  ParsedLine* out_ = nullptr;
  std::string_view refused_;
  bool has_rank_ = false, has_step_ = false;
  bool layout_changed_ = false;
  json extra_;  // null until there is something
  std::size_t bins_ = 0, histograms_ = 0;

  KeyWriter top_writer_, bin_writer_, int_value_writer_, value_writer_;
  std::vector<std::string> top_keys_, bin_keys_;
  Section stream_section_{&Layout::stream}, host_section_{&Layout::host}, calls_section_{&Layout::calls},
      counts_section_{&Layout::counts};
  double wall_ = kAbsent;
  std::vector<double> stream_, host_, values_;
  Integers calls_, counts_, int_values_;
};

RecordReader::RecordReader() : impl_(std::make_unique<Impl>()) {}
RecordReader::~RecordReader() = default;
RecordReader::Result RecordReader::read(std::string_view text, ParsedLine* out) {
  return impl_->read(text, out);
}

RecordReader::Result RecordReader::Impl::read(std::string_view text, ParsedLine* out) {
  out->reason = {};
  refused_ = {};
  try {
    document_ = &line_.load(text);
    return read_typed(out);
  } catch (const simdjson::simdjson_error& error) {
    // Half of this text's keys stand where the next record's are compared, and may repeat.
    out->layout = {};
    ++out->layout_version;
    top_keys_.clear();
    bin_keys_.clear();
    if (error.error() != simdjson::UTF8_ERROR) return Result::broken;
    out->kind = LineKind::rejected;
    out->reason = "invalid UTF-8";
    return Result::read;
  }
}

RecordReader::Result RecordReader::Impl::read_typed(ParsedLine* out) {
  std::string type;
  ondemand::value value;
  const simdjson::error_code found = document_->find_field_unordered("type").get(value);
  // After any other error the parser must not be rewound.
  if (found != simdjson::SUCCESS && found != simdjson::NO_SUCH_FIELD) return Result::broken;
  if (found == simdjson::SUCCESS && value.type() == ondemand::json_type::string)
    type = std::string_view(value.get_string());
  document_->rewind();
  if (type == "update") {
    out->kind = LineKind::update;
    read_update(out);
  } else {
    const json object = line_.to_json(document_->get_object(), 0);
    out->kind = type == "config" ? LineKind::config : type == "end" ? LineKind::end : LineKind::foreign;
    if (type.empty())
      refuse("no type");
    else if (out->kind == LineKind::foreign)
      out->reason = "unknown type";
    else
      read_other(object, out);
  }
  // Something follows the object: two records glued together, for one.
  if (document_->current_location().error() != simdjson::OUT_OF_BOUNDS) return Result::broken;
  if (refused_.empty()) refused_ = line_.refusal();
  if (!refused_.empty()) {
    out->kind = LineKind::rejected;
    out->reason = refused_;
  }
  return Result::read;
}

void RecordReader::Impl::read_other(const json& object, ParsedLine* out) {
  const auto rank = integer_of(object, "rank", 0, limits::kMaxRank - 1);
  if (!rank) refuse(why_no_rank(object));
  out->rank = static_cast<Rank>(rank.value_or(0));
  if (out->kind != LineKind::config) return;
  const auto small = [&](const char* key, std::int64_t most) { return integer_of(object, key, 1, most); };
  out->world_size = static_cast<std::uint32_t>(small("world_size", limits::kMaxRank).value_or(0));
  out->attempt = small("attempt", limits::kMaxAttempt);
  out->settings = dump(object);
  if (out->settings.size() > limits::kMaxSettingsBytes) refuse("too many settings");
}

void RecordReader::Impl::read_update(ParsedLine* out) {
  out_ = out;
  skipped_.clear();
  layout_changed_ = false;
  read_update_fields();
  if (!skipped_.empty()) {
    document_->rewind();
    std::ranges::sort(skipped_);
    refused_ = {};
    read_update_fields();
  }
  finish_update();
}

void RecordReader::Impl::read_update_fields() {
  Layout& layout = out_->layout;
  const std::array sections{&stream_section_, &host_section_, &calls_section_, &counts_section_};
  has_rank_ = has_step_ = false;
  extra_ = nullptr;
  bins_ = histograms_ = 0;
  wall_ = kAbsent;
  for (std::vector<double>* column : {&stream_, &host_, &values_}) column->clear();
  for (Integers* column : {&calls_, &counts_, &int_values_, &out_->sample_indices}) column->clear();
  out_->rest.tags.clear();
  out_->rest.extra.clear();
  for (Section* section : sections) section->seen = false;
  int_value_writer_.begin(&layout.int_values);
  value_writer_.begin(&layout.values);

  each_field(document_->get_object(), top_writer_, &top_keys_,
             [&](std::string_view key, ondemand::value value) { read_update_field(key, value); });

  out_->rest.histograms.resize(histograms_);
  for (const Section* section : sections) {
    std::vector<std::string>& names = layout.*section->names;
    if (section->seen || names.empty()) continue;
    names.clear();
    layout_changed_ = true;
  }
  for (KeyWriter* writer : {&int_value_writer_, &value_writer_}) layout_changed_ |= writer->finish();
}

// True when the keys are not what they were in the record before.
template <typename Use>
bool RecordReader::Impl::each_field(ondemand::object object, KeyWriter& writer,
                                    std::vector<std::string>* keys, Use&& use) {
  writer.begin(keys);
  for (auto field : object) {
    const char* place = field.key().raw();
    const std::string_view key = field.unescaped_key();
    if (key.size() > limits::kMaxNameBytes) refuse("name too long");
    if (std::ranges::binary_search(skipped_, place)) continue;
    writer.add(key, place);
    use(key, ondemand::value(field.value()));
  }
  const bool changed = writer.finish();
  // Keys that stand as they stood before are known to be unique.
  if (changed) {
    const std::size_t skipped = skipped_.size();
    writer.find_repeated(&skipped_);
    if (skipped_.size() > skipped) keys->clear();  // the next object may repeat the same ones
  }
  return changed;
}

void RecordReader::Impl::read_update_field(std::string_view key, ondemand::value value) {
  if (key == "type") return;
  if (key == "cuda_stream_ms") return read_times(key, value, stream_section_, stream_);
  if (key == "cpu_call_ms") return read_times(key, value, host_section_, host_);
  if (key == "calls") return read_integers(key, value, calls_section_, calls_);
  if (key == "counts") return read_integers(key, value, counts_section_, counts_);
  if (key == "sample_indices") return read_samples(key, value);
  if (key == "tags") return read_tags(key, value);
  if (key == "wall_ms") {
    wall_ = time_of(value, {}, key);
    return;
  }
  if (key == "rank" || key == "step") {
    const Scalar number = line_.scalar(value);
    const bool is_rank = key == "rank";
    const std::int64_t most = is_rank ? limits::kMaxRank - 1 : std::numeric_limits<std::int64_t>::max();
    (is_rank ? has_rank_ : has_step_) = true;
    if (number.kind != Scalar::Kind::integer && !line_.is_integer(value)) {
      if (number.kind == Scalar::Kind::other) (void)line_.to_json(value, 0);  // it may be no JSON at all
      return refuse(is_rank ? "rank is no integer" : "step is no integer");
    }
    if (number.kind != Scalar::Kind::integer || number.integer < 0 || number.integer > most)
      return refuse(is_rank ? "rank out of range" : "step out of range");
    if (is_rank)
      out_->rank = static_cast<Rank>(number.integer);
    else
      out_->step = number.integer;
    return;
  }
  read_top_level(key, value);
}

void RecordReader::Impl::read_top_level(std::string_view key, ondemand::value value) {
  if (value.type() == ondemand::json_type::object) return read_histogram(key, value.get_object());
  const Scalar number = line_.scalar(value);
  switch (number.kind) {
    case Scalar::Kind::integer:
      int_value_writer_.add(key, nullptr);
      int_values_.push_back(number.integer);
      break;
    case Scalar::Kind::real:
      value_writer_.add(key, nullptr);
      values_.push_back(number.real);
      break;
    case Scalar::Kind::other:
      extra_[std::string(key)] = line_.to_json(value, 0);
      break;
  }
}

// Where a thing that its place cannot hold goes: under its own name, within the object it came in.
json& RecordReader::Impl::misfit(std::string_view section, std::string_view name) {
  json& object = section.empty() ? extra_ : extra_[std::string(section)];
  return object[std::string(name)];
}

double RecordReader::Impl::time_of(ondemand::value value, std::string_view section, std::string_view name) {
  const Scalar number = line_.scalar(value);
  if (number.kind == Scalar::Kind::real) return number.real;
  if (number.kind == Scalar::Kind::integer) {
    if (number.integer >= -kExactInDouble && number.integer <= kExactInDouble)
      return static_cast<double>(number.integer);
    misfit(section, name) = number.integer;
    return kText;
  }
  json other = line_.to_json(value, 0);
  if (other.is_null()) return kNull;
  misfit(section, name) = std::move(other);
  return kText;
}

void RecordReader::Impl::read_times(std::string_view key, ondemand::value value, Section& section,
                                    std::vector<double>& times) {
  if (value.type() != ondemand::json_type::object) {
    extra_[std::string(key)] = line_.to_json(value, 0);
    return;
  }
  section.seen = true;
  layout_changed_ |= each_field(
      value.get_object(), section.keys, &(out_->layout.*section.names),
      [&](std::string_view name, ondemand::value time) { times.push_back(time_of(time, key, name)); });
}

void RecordReader::Impl::read_integers(std::string_view key, ondemand::value value, Section& section,
                                       Integers& integers) {
  if (value.type() != ondemand::json_type::object) {
    extra_[std::string(key)] = line_.to_json(value, 0);
    return;
  }
  section.seen = true;
  std::vector<std::string>& names = out_->layout.*section.names;
  std::vector<std::string> misfits;
  layout_changed_ |= each_field(
      value.get_object(), section.keys, &names, [&](std::string_view name, ondemand::value element) {
        const Scalar number = line_.scalar(element);
        if (number.kind == Scalar::Kind::integer) return integers.push_back(number.integer);
        misfit(key, name) = number.kind == Scalar::Kind::real ? json(number.real) : line_.to_json(element, 0);
        misfits.emplace_back(name);
      });
  if (misfits.empty()) return;
  std::erase_if(names,
                [&](const std::string& name) { return std::ranges::find(misfits, name) != misfits.end(); });
  layout_changed_ = true;
}

Histogram& RecordReader::Impl::next_histogram(std::string_view name) {
  std::vector<Histogram>& histograms = out_->rest.histograms;
  if (histograms_ == histograms.size()) histograms.emplace_back();
  Histogram& histogram = histograms[histograms_++];
  histogram.name = name;
  histogram.bins.clear();
  return histogram;
}

// An object of integers alone is a histogram; the first thing that is none makes it an unknown key.
void RecordReader::Impl::read_histogram(std::string_view key, ondemand::object object) {
  Histogram& histogram = next_histogram(key);
  json other;
  each_field(object, bin_writer_, &bin_keys_, [&](std::string_view name, ondemand::value element) {
    const Scalar number = line_.scalar(element);
    if (number.kind == Scalar::Kind::integer && other.is_null()) {
      histogram.bins.emplace_back(name, number.integer);
      return;
    }
    if (other.is_null()) {
      other = json::object();
      for (const auto& [bin, count] : histogram.bins) other[bin] = count;
    }
    other[std::string(name)] = line_.to_json(element, 1);
  });
  if (other.is_null()) {
    bins_ += histogram.bins.size();
  } else {
    extra_[histogram.name] = std::move(other);
    --histograms_;
  }
}

void RecordReader::Impl::read_samples(std::string_view key, ondemand::value value) {
  if (value.type() != ondemand::json_type::array) {
    extra_[std::string(key)] = line_.to_json(value, 0);
    return;
  }
  json other;
  Integers& samples = out_->sample_indices;
  for (ondemand::value element : value.get_array()) {
    const Scalar number = line_.scalar(element);
    if (number.kind == Scalar::Kind::integer && other.is_null()) {
      samples.push_back(number.integer);
      continue;
    }
    if (other.is_null()) other = json(samples);
    other.push_back(line_.to_json(element, 1));
  }
  if (other.is_null()) return;
  extra_[std::string(key)] = std::move(other);
  samples.clear();
}

void RecordReader::Impl::read_tags(std::string_view key, ondemand::value value) {
  json tags = line_.to_json(value, 0);
  const bool texts =
      tags.is_array() && std::ranges::all_of(tags, [](const json& tag) { return tag.is_string(); });
  if (!texts) {
    extra_[std::string(key)] = std::move(tags);
    return;
  }
  for (const json& tag : tags) {
    out_->rest.tags.push_back(tag.get<std::string>());
    if (out_->rest.tags.back().size() > limits::kMaxNameBytes) refuse("name too long");
  }
}

void RecordReader::Impl::finish_update() {
  out_->doubles.assign(1, wall_);
  for (const std::vector<double>* column : {&stream_, &host_, &values_})
    out_->doubles.insert(out_->doubles.end(), column->begin(), column->end());
  out_->ints.clear();
  for (const Integers* column : {&calls_, &counts_, &int_values_})
    out_->ints.insert(out_->ints.end(), column->begin(), column->end());
  if (!extra_.is_null()) out_->rest.extra = dump(std::move(extra_));

  if (layout_changed_) ++out_->layout_version;

  if (!has_rank_) refuse("no rank");
  if (!has_step_) refuse("no step");
  if (out_->layout.name_count() > limits::kMaxNamesPerRecord) refuse("too many names");
  if (bins_ > limits::kMaxHistogramBins) refuse("too many histogram bins");
  if (out_->sample_indices.size() > limits::kMaxSampleIndices) refuse("too many sample indices");
  if (out_->rest.extra.size() > limits::kMaxExtraBytes) refuse("too many unknown keys");
}

}  // namespace laggard::agent
