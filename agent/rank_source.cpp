#include "agent/rank_source.h"

#include <algorithm>

namespace laggard::agent {
namespace {

// Well below limits::kMaxMessageBytes: one more record of the longest line allowed still fits.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
constexpr std::size_t kNameOverhead = 3;  // a tag and a length, at most

std::size_t wire_bytes(const Layout& layout) {
  std::size_t out = 0;
  for (const auto* names :
       {&layout.stream, &layout.host, &layout.calls, &layout.counts, &layout.int_values, &layout.values})
    for (const std::string& name : *names) out += name.size() + kNameOverhead;
  return out;
}

}  // namespace

RankSource::RankSource(std::uint32_t channel, Hello hello, const AttemptState& attempts)
    : channel_(channel), hello_(std::move(hello)), attempts_(attempts) {}

std::optional<LayoutId> RankSource::layout_id(const ParsedLine& update) {
  if (layout_version_ == update.layout_version) return last_layout_;
  if (const auto known = layouts_.id_of(update.layout)) return known;
  const std::size_t bytes = layout_bytes_ + wire_bytes(update.layout);
  if (layouts_.size() == limits::kMaxLayoutsPerSource || bytes > kMaxLayoutBytes) return std::nullopt;
  layout_bytes_ = bytes;
  return layouts_.intern(update.layout);
}

std::optional<std::string_view> RankSource::add_update(const ParsedLine& update) {
  const std::optional<LayoutId> layout = layout_id(update);
  if (!layout.has_value()) return "too many record shapes";
  layout_version_ = update.layout_version;
  last_layout_ = *layout;
  open_.append(update.view(), *layout);
  ++last_seq_;
  attempts_.on_update();
  if (open_.size() == kBatchRecords || open_.byte_size() >= kBatchBytes) flush();
  return std::nullopt;
}

void RankSource::add_config(const ParsedLine& config) {
  flush();
  attempts_.on_config(config.attempt);
  ++last_seq_;
  push(last_seq_, encode_config(channel_, head(last_seq_), config.world_size, config.settings));
}

void RankSource::add_end() {
  flush();
  ++last_seq_;
  push(last_seq_, encode_end(channel_, head(last_seq_)));
}

void RankSource::flush() {
  if (open_.empty()) return;
  const std::uint64_t first_seq = last_seq_ - open_.size() + 1;
  push(first_seq, encode_records(channel_, head(first_seq), open_));
  open_.clear();
}

void RankSource::push(std::uint64_t first_seq, std::string bytes) {
  if (refused_) return;
  window_bytes_ += bytes.size();
  window_.push_back({first_seq, last_seq_, static_cast<LayoutId>(layouts_.size()), std::move(bytes)});
}

std::string RankSource::hello() {
  layouts_said_ = static_cast<LayoutId>(layouts_.size());
  sent_ = 0;
  credit_ = 0;
  return encode_hello(channel_, hello_, layouts_);
}

bool RankSource::on_welcome(const Welcome& welcome) {
  if (welcome.committed_seq < (refused_ ? last_seq_ : committed_seq_)) return false;
  refused_ = false;
  commit(welcome.committed_seq);
  credit_ = welcome.window_records;
  hello_.attempt_offset = welcome.attempt_offset;
  return true;
}

void RankSource::on_ack(const Ack& ack) {
  commit(ack.committed_seq);
  credit_ = ack.credit;
  hello_.attempt_offset = ack.attempt_offset;
  deliveries_ = ack.deliveries;
}

void RankSource::on_refusal() {
  refused_ = true;
  open_.clear();
  window_.clear();
  window_bytes_ = sent_ = 0;
}

void RankSource::commit(std::uint64_t seq) {
  const std::uint64_t last_closed = last_seq_ - open_.size();  // nothing beyond can have been sent
  committed_seq_ = std::max(committed_seq_, std::min(seq, last_closed));
  while (!window_.empty() && window_.front().last_seq <= committed_seq_) {
    window_bytes_ -= window_.front().bytes.size();
    window_.pop_front();
    if (sent_ > 0) --sent_;
  }
}

std::optional<std::string> RankSource::next_batch() {
  if (sent_ == window_.size()) return std::nullopt;
  const Batch& batch = window_[sent_];
  // A credit smaller than a batch must not stop the delivery: one batch may always be on its way.
  const bool fits = batch.last_seq - committed_seq_ <= std::min(credit_, limits::kWindowRecords);
  if (!fits && (credit_ == 0 || sent_ > 0)) return std::nullopt;
  ++sent_;
  if (batch.layouts <= layouts_said_) return batch.bytes;
  std::string bytes = batch.bytes + encode_batch_layouts(layouts_, layouts_said_, batch.layouts);
  layouts_said_ = batch.layouts;
  return bytes;
}

}  // namespace laggard::agent
