#include "proto/codec.h"

#include "proto/block.pb.h"
#include "proto/wire.pb.h"

namespace laggard::codec {
namespace {

template <typename Field, typename T>
void copy_to(const std::vector<T>& from, Field* to) {
  to->Clear();
  to->Add(from.begin(), from.end());
}

template <typename T, typename Field>
std::vector<T> copy_from(const Field& from) {
  return std::vector<T>(from.begin(), from.end());
}

void rest_to_wire(const RecordRest& rest, wire::RecordRest* out) {
  for (const Histogram& histogram : rest.histograms) {
    wire::Histogram* to = out->add_histograms();
    to->set_name(histogram.name);
    for (const auto& [key, count] : histogram.bins) {
      to->add_keys(key);
      to->add_bins(count);
    }
  }
  for (const std::string& tag : rest.tags) out->add_tags(tag);
  out->set_extra(rest.extra);
}

std::optional<RecordRest> rest_from_wire(const wire::RecordRest& in) {
  RecordRest rest;
  for (const wire::Histogram& histogram : in.histograms()) {
    if (histogram.keys_size() != histogram.bins_size()) return std::nullopt;
    Histogram& to = rest.histograms.emplace_back();
    to.name = histogram.name();
    for (int i = 0; i < histogram.keys_size(); ++i)
      to.bins.emplace_back(histogram.keys(i), histogram.bins(i));
  }
  rest.tags.assign(in.tags().begin(), in.tags().end());
  rest.extra = in.extra();
  return rest;
}

void columns_to_wire(const PackedRecords::Columns& columns, bool with_steps, wire::PackedRecords* out) {
  if (with_steps) copy_to(columns.steps, out->mutable_steps());
  copy_to(columns.ranks, out->mutable_ranks());
  copy_to(columns.layouts, out->mutable_layouts());
  copy_to(columns.doubles, out->mutable_doubles());
  copy_to(columns.ints, out->mutable_ints());
  copy_to(columns.sample_counts, out->mutable_sample_counts());
  copy_to(columns.sample_indices, out->mutable_sample_indices());
  copy_to(columns.rest_of, out->mutable_rest_of());
  out->clear_rests();
  for (const RecordRest& rest : columns.rests) rest_to_wire(rest, out->add_rests());
}

std::optional<std::string> columns_from_wire(const wire::PackedRecords& in, std::optional<Step> step,
                                             const PackedRecords::LayoutOf& layout_of, PackedRecords* out) {
  PackedRecords::Columns columns;
  columns.ranks = copy_from<Rank>(in.ranks());
  if (step.has_value())
    columns.steps.assign(columns.ranks.size(), *step);
  else
    columns.steps = copy_from<Step>(in.steps());
  columns.layouts = copy_from<LayoutId>(in.layouts());
  columns.doubles = copy_from<double>(in.doubles());
  columns.ints = copy_from<std::int64_t>(in.ints());
  columns.sample_counts = copy_from<std::uint32_t>(in.sample_counts());
  columns.sample_indices = copy_from<std::int64_t>(in.sample_indices());
  columns.rest_of = copy_from<std::uint32_t>(in.rest_of());
  columns.rests.reserve(static_cast<std::size_t>(in.rests_size()));
  for (const wire::RecordRest& rest : in.rests()) {
    std::optional<RecordRest> read = rest_from_wire(rest);
    if (!read.has_value()) return "a histogram whose keys and bins differ in number";
    columns.rests.push_back(std::move(*read));
  }
  return out->assign(std::move(columns), layout_of);
}

bool parse(std::string_view bytes, google::protobuf::MessageLite* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace

void to_wire(const Layout& layout, wire::Layout* out) {
  const auto copy = [](const std::vector<std::string>& from, auto* to) {
    to->Assign(from.begin(), from.end());
  };
  copy(layout.stream, out->mutable_stream());
  copy(layout.host, out->mutable_host());
  copy(layout.calls, out->mutable_calls());
  copy(layout.counts, out->mutable_counts());
  copy(layout.int_values, out->mutable_int_values());
  copy(layout.values, out->mutable_values());
}

Layout from_wire(const wire::Layout& in) {
  return {.stream = copy_from<std::string>(in.stream()),
          .host = copy_from<std::string>(in.host()),
          .calls = copy_from<std::string>(in.calls()),
          .counts = copy_from<std::string>(in.counts()),
          .int_values = copy_from<std::string>(in.int_values()),
          .values = copy_from<std::string>(in.values())};
}

void to_wire(const PackedRecords& records, wire::PackedRecords* out) {
  columns_to_wire(records.columns(), true, out);
}

std::optional<std::string> from_wire(const wire::PackedRecords& in, const PackedRecords::LayoutOf& layout_of,
                                     PackedRecords* out) {
  return columns_from_wire(in, std::nullopt, layout_of, out);
}

struct BlockEncoder::Buffers {
  block::Block block;
  std::string bytes;
};

BlockEncoder::BlockEncoder() : buffers_(std::make_unique<Buffers>()) {}
BlockEncoder::~BlockEncoder() = default;

std::string_view BlockEncoder::encode(const PackedRecords& records) {
  columns_to_wire(records.columns(), false, buffers_->block.mutable_records());
  buffers_->block.SerializeToString(&buffers_->bytes);
  return buffers_->bytes;
}

std::optional<std::string> decode_block(std::string_view bytes, Step step,
                                        const PackedRecords::LayoutOf& layout_of, PackedRecords* out) {
  block::Block block;
  if (!parse(bytes, &block)) return "bytes that are no block";
  return columns_from_wire(block.records(), step, layout_of, out);
}

std::string encode_layout(const Layout& layout) {
  wire::Layout message;
  to_wire(layout, &message);
  return message.SerializeAsString();
}

std::optional<Layout> decode_layout(std::string_view bytes) {
  wire::Layout message;
  if (!parse(bytes, &message)) return std::nullopt;
  return from_wire(message);
}

}  // namespace laggard::codec
