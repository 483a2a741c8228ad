#include "agent/rank_source.h"

#include <algorithm>
#include <cstddef>

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

RankSource::RankSource(std::uint32_t channel, Hello hello, const AttemptState& attempts,
                       std::optional<std::size_t> most_records)
    : channel_(channel), most_records_(most_records), hello_(std::move(hello)), attempts_(attempts) {}

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
  ++held_;
  attempts_.on_update();
  if (open_.size() == kBatchRecords || open_.byte_size() >= kBatchBytes) flush();
  keep_to_limit();
  return std::nullopt;
}

void RankSource::add_config(const ParsedLine& config) {
  flush();
  attempts_.on_config(config.attempt);
  if (most_records_.has_value()) {
    config_ = {config.world_size, config.settings};
    if (replace_config(config)) return;
  }
  ++last_seq_;
  ++held_;
  push(last_seq_, encode_config(channel_, head(last_seq_), config.world_size, config.settings), false,
       attempts_.attempt);
  keep_to_limit();
}

// Puts the config into the place of one of the same attempt that was never sent: settings are an attempt's,
// wherever among its records they stand. Those of earlier attempts need not stay. So however many there are,
// they do not pile up.
bool RankSource::replace_config(const ParsedLine& config) {
  for (std::size_t i = once_sent_; i < window_.size(); ++i) {
    Batch& batch = window_[i];
    if (!batch.config_of.has_value()) continue;
    if (batch.config_of == attempts_.attempt) {
      window_bytes_ -= batch.size;
      batch.bytes = encode_config(channel_, head(batch.first_seq), config.world_size, config.settings);
      batch.size = batch.bytes.size();
      window_bytes_ += batch.size;
      keep_to_limit();
      return true;
    }
    batch.droppable = true;
  }
  return false;
}

// To a collector that lacks what was committed. The number is that of the last item that is gone, which this
// collector will never have; `delivered` is the last one that another had.
void RankSource::say_config_again(std::uint64_t delivered) {
  if (!config_.has_value()) return;
  const std::uint64_t seq = (window_.empty() ? last_seq_ - open_.size() + 1 : window_.front().first_seq) - 1;
  if (seq > delivered) --dropped_;
  ++held_;
  std::string bytes = encode_config(channel_, head(seq), config_->world_size, config_->settings);
  window_bytes_ += bytes.size();
  const std::size_t size = bytes.size();
  window_.push_front({.first_seq = seq,
                      .last_seq = seq,
                      .layouts = 0,
                      .droppable = false,
                      .config_of = attempts_.attempt,
                      .size = size,
                      .bytes = std::move(bytes),
                      .place = std::nullopt});
  if (once_sent_ > 0) ++once_sent_;
}

void RankSource::add_end() {
  flush();
  ++last_seq_;
  ++held_;
  push(last_seq_, encode_end(channel_, head(last_seq_)));
}

void RankSource::skip(std::uint64_t items) {
  flush();
  last_seq_ += items;
  dropped_ += items;
}

void RankSource::flush() {
  if (open_.empty()) return;
  const std::uint64_t first_seq = last_seq_ - open_.size() + 1;
  push(first_seq, encode_records(channel_, head(first_seq), open_), true);
  open_.clear();
}

void RankSource::push(std::uint64_t first_seq, std::string bytes, bool droppable,
                      std::optional<std::uint32_t> config_of) {
  if (refused_) {
    held_ -= last_seq_ - first_seq + 1;
    return;
  }
  window_bytes_ += bytes.size();
  const std::size_t size = bytes.size();
  window_.push_back({.first_seq = first_seq,
                     .last_seq = last_seq_,
                     .layouts = static_cast<LayoutId>(layouts_.size()),
                     .droppable = droppable,
                     .config_of = config_of,
                     .size = size,
                     .bytes = std::move(bytes),
                     .place = std::nullopt});
}

// What was sent at any time may have arrived, and what arrived must not be called dropped. So it stays; and
// at most half of the limit is ever on its way. The end and an attempt's config stay too: they are few, and
// say what the rest is.
void RankSource::keep_to_limit() {
  if (!most_records_.has_value()) return;
  while (held_ - spooled_items_ > *most_records_ || window_bytes() > limits::kWindowBytes) {
    if (spool_ != nullptr && spill()) continue;
    const auto never_sent = window_.begin() + static_cast<std::ptrdiff_t>(once_sent_);
    const auto oldest =
        std::find_if(never_sent, window_.end(), [](const Batch& batch) { return batch.droppable; });
    if (oldest == window_.end()) return;
    drop(oldest);
  }
}

void RankSource::drop(const std::deque<Batch>::iterator& batch) {
  dropped_ += batch->items();
  forget(*batch);
  window_.erase(batch);
}

// Puts the oldest batch into the spool that is not there yet; those that are there are older. A config that
// may be dropped has become so later, out of this order.
bool RankSource::spill() {
  const auto never_sent = window_.begin() + static_cast<std::ptrdiff_t>(once_sent_);
  const auto oldest = std::find_if(never_sent, window_.end(), [](const Batch& batch) {
    return batch.droppable && !batch.place.has_value();
  });
  if (oldest == window_.end()) return false;
  if (oldest->config_of.has_value()) {
    drop(oldest);
    return true;
  }
  oldest->place = spool_->put(oldest->bytes);
  if (!oldest->place.has_value()) return false;
  oldest->bytes = {};
  window_bytes_ -= oldest->size;
  spooled_items_ += oldest->items();
  return true;
}

// Back into memory, where it stays until it is acknowledged.
bool RankSource::load(Batch& batch) {
  auto bytes = spool_->get(*batch.place, batch.size);
  if (!bytes.has_value()) return false;
  spool_->free(*batch.place, batch.size);
  batch.place.reset();
  batch.bytes = std::move(*bytes);
  window_bytes_ += batch.size;
  spooled_items_ -= batch.items();
  return true;
}

void RankSource::forget(const Batch& batch) {
  held_ -= batch.items();
  if (!batch.place.has_value()) {
    window_bytes_ -= batch.size;
    return;
  }
  spool_->free(*batch.place, batch.size);
  spooled_items_ -= batch.items();
}

bool RankSource::may_go(const Batch& batch) const {
  std::uint64_t most = std::min(credit_, limits::kWindowRecords);
  bool fits = true;
  if (most_records_.has_value()) {
    most = std::min<std::uint64_t>(most, *most_records_ / 2);
    fits = sent_bytes_ + batch.size <= limits::kWindowBytes / 2;
  }
  if (fits && batch.last_seq - committed_seq_ <= most) return true;
  // A credit smaller than a batch must not stop the delivery: one batch may always be on its way.
  return credit_ > 0 && sent_ == 0;
}

std::string RankSource::hello() {
  layouts_said_ = static_cast<LayoutId>(layouts_.size());
  sent_ = sent_bytes_ = 0;
  credit_ = 0;
  return encode_hello(channel_, hello_, layouts_);
}

bool RankSource::on_welcome(const Welcome& welcome) {
  // Another collector, or one that lost its database: to it, what is gone was dropped before the rest.
  if (most_records_.has_value() && welcome.committed_seq < committed_seq_)
    say_config_again(std::exchange(committed_seq_, welcome.committed_seq));
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
  sent_ = sent_bytes_ = 0;
  if (most_records_.has_value()) return;
  refused_ = true;
  open_.clear();
  window_.clear();
  window_bytes_ = once_sent_ = 0;
  held_ = 0;
}

void RankSource::commit(std::uint64_t seq) {
  const std::uint64_t last_closed = last_seq_ - open_.size();  // nothing beyond can have been sent
  committed_seq_ = std::max(committed_seq_, std::min(seq, last_closed));
  while (!window_.empty() && window_.front().last_seq <= committed_seq_) {
    const Batch& batch = window_.front();
    forget(batch);
    if (sent_ > 0) {
      --sent_;
      sent_bytes_ -= batch.size;
    }
    window_.pop_front();
    if (once_sent_ > 0) --once_sent_;
  }
}

std::optional<std::string> RankSource::next_batch() {
  if (sent_ == window_.size()) return std::nullopt;
  Batch& batch = window_[sent_];
  if (!may_go(batch)) return std::nullopt;
  if (batch.place.has_value() && !load(batch)) {
    drop(window_.begin() + static_cast<std::ptrdiff_t>(sent_));
    return next_batch();
  }
  const std::uint64_t before = sent_ == 0 ? committed_seq_ : window_[sent_ - 1].last_seq;
  ++sent_;
  sent_bytes_ += batch.size;
  once_sent_ = std::max(once_sent_, sent_);
  std::string bytes = batch.bytes;
  if (batch.first_seq > before + 1) bytes += encode_dropped_before(batch.first_seq - before - 1);
  if (batch.layouts > layouts_said_) {
    bytes += encode_batch_layouts(layouts_, layouts_said_, batch.layouts);
    layouts_said_ = batch.layouts;
  }
  return bytes;
}

}  // namespace laggard::agent
