// The delivery window of one source.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/attempt_state.h"
#include "agent/messages.h"
#include "agent/parsed_line.h"
#include "agent/spool.h"
#include "daemon/base/limits.h"

namespace laggard::agent {

/// Numbers a rank's items (updates, configs, the end) from 1, packs them into batches and keeps those until
/// the collector has committed them. It knows no socket, no file and no clock.
class RankSource {
 public:
  /// Names of all layouts of a source, as they travel: each Hello carries them all, and has to stay well
  /// below limits::kMaxMessageBytes.
  /// Records of a batch. Larger messages are no faster, and ranks that catch up in small ones complete their
  /// steps sooner.
  static constexpr std::size_t kBatchRecords = 128;
  static constexpr std::size_t kMaxLayoutBytes = std::size_t{1} << 20;

  /// `attempts` is where the file's numbering stands before the first item; in `hello` everything is as the
  /// source begins. With `most_records` nobody can hand an item over a second time: beyond so many records,
  /// or limits::kWindowBytes, the oldest that were never sent are dropped, and nothing is held back for
  /// full(). A collector that lacks what was committed hears the config again,
  /// and a config that was never sent gives way to the next of its attempt.
  RankSource(std::uint32_t channel, Hello hello, const AttemptState& attempts,
             std::optional<std::size_t> most_records = std::nullopt);

  /// With `most_records` only: what does not fit into memory goes there first, and is dropped when that is
  /// full.
  void spill_to(std::unique_ptr<Spool> spool) { spool_ = std::move(spool); }

  std::uint32_t channel() const { return channel_; }
  Rank rank() const { return hello_.rank; }

  /// Takes an update; returns why it cannot, nothing when it did.
  [[nodiscard]] std::optional<std::string_view> add_update(const ParsedLine& update);
  void add_config(const ParsedLine& config);
  void add_end();
  /// Counts items that were lost before they got here: no item will have their numbers.
  void skip(std::uint64_t items);
  /// What is known of the stages by now; the next hello() says it.
  void set_stages(std::vector<StageInfo> stages) { hello_.stages = std::move(stages); }
  /// Closes the batch begun, so that it can be sent.
  void flush();
  /// True when no more items are to be added before some are committed.
  bool full() const { return !refused_ && uncommitted() >= limits::kWindowRecords; }

  /// Opens the delivery, or opens it again: what is not committed is sent anew after the Welcome.
  std::string hello();
  /// False when the collector lacks items that nobody holds any more, but that can be read again: it had
  /// acknowledged them, or refused the source before.
  [[nodiscard]] bool on_welcome(const Welcome& welcome);
  void on_ack(const Ack& ack);
  /// The collector does not take this source: items are counted from now on, and held no more. What nobody
  /// can hand over again is kept, as far as the limit allows.
  void on_refusal();
  /// The next message that the credit allows; nothing when there is none.
  std::optional<std::string> next_batch();

  const AttemptState& attempts() const { return attempts_; }
  std::uint32_t attempt_offset() const { return hello_.attempt_offset; }
  std::uint64_t last_seq() const { return last_seq_; }
  std::uint64_t committed_seq() const { return committed_seq_; }
  std::uint64_t uncommitted() const { return last_seq_ - committed_seq_; }
  /// Items held: neither committed nor dropped.
  std::uint64_t held() const { return held_; }
  /// Items that will never be sent; each number that is none of them was sent, or is held.
  std::uint64_t dropped() const { return dropped_; }
  /// True when a batch is on its way whose acknowledgement is owed.
  bool in_flight() const { return sent_ > 0; }
  /// True when every closed batch is on its way: the one begun may be closed too.
  bool all_sent() const { return sent_ == window_.size(); }
  std::size_t window_bytes() const { return window_bytes_ + open_.byte_size(); }
  const Deliveries& deliveries() const { return deliveries_; }

 private:
  struct Batch {
    std::uint64_t first_seq, last_seq;
    LayoutId layouts;  // how many of the source's layouts it needs
    bool droppable;
    std::optional<std::uint32_t> config_of;  // the attempt, when it is a config
    std::size_t size;
    std::string bytes;                   // empty while it is in the spool
    std::optional<std::uint64_t> place;  // in the spool
    std::uint64_t items() const { return last_seq - first_seq + 1; }
  };

  BatchHead head(std::uint64_t first_seq) const {
    return {first_seq, attempts_.attempt, attempts_.explicit_number};
  }
  std::optional<LayoutId> layout_id(const ParsedLine& update);
  void push(std::uint64_t first_seq, std::string bytes, bool droppable = false,
            std::optional<std::uint32_t> config_of = std::nullopt);
  bool replace_config(const ParsedLine& config);
  void say_config_again(std::uint64_t delivered);
  void keep_to_limit();
  void drop(const std::deque<Batch>::iterator& batch);
  bool spill();
  bool load(Batch& batch);
  void forget(const Batch& batch);
  bool may_go(const Batch& batch) const;
  void commit(std::uint64_t seq);

  const std::uint32_t channel_;
  const std::optional<std::size_t> most_records_;
  Hello hello_;
  AttemptState attempts_;

  struct Config {
    std::uint32_t world_size;
    std::string settings;
  };
  std::optional<Config> config_;  // the newest, for a collector that has none; with most_records_ only

  LayoutTable layouts_;
  std::size_t layout_bytes_ = 0;
  std::optional<std::uint64_t> layout_version_;  // of the update added last
  LayoutId last_layout_ = 0;
  PackedRecords open_;
  std::uint64_t last_seq_ = 0;

  std::deque<Batch> window_;
  std::size_t window_bytes_ = 0;
  std::size_t sent_ = 0;  // batches of window_ that are on their way
  std::size_t sent_bytes_ = 0;
  std::size_t once_sent_ = 0;  // that were sent at any time: the collector may have them
  LayoutId layouts_said_ = 0;  // in this session
  std::uint64_t committed_seq_ = 0;
  std::uint64_t held_ = 0, dropped_ = 0;
  std::unique_ptr<Spool> spool_;     // holds batches that were never sent, in their order
  std::uint64_t spooled_items_ = 0;  // of held_
  std::uint32_t credit_ = 0;
  bool refused_ = false;
  Deliveries deliveries_;
};

}  // namespace laggard::agent
