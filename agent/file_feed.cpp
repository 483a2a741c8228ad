#include "agent/file_feed.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>

#include "agent/utf8.h"

namespace laggard::agent {
namespace {

std::string random_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    std::array<char, 9> hex{};
    std::snprintf(hex.data(), hex.size(), "%08x", random());
    id += hex.data();
  }
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

SourceFactory::SourceFactory(std::string run, std::vector<StageInfo> stages)
    : run_(std::move(run)), stages_(std::move(stages)) {
  using namespace std::chrono;
  identity_.host = host_name();
  identity_.pid = static_cast<std::uint32_t>(::getpid());
  identity_.started_unix_ms = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::unique_ptr<RankSource> SourceFactory::make(const std::string& origin, Rank rank,
                                                const RankProgress& start, bool resumed,
                                                std::optional<std::size_t> most_records) {
  Hello hello{.run = run_,
              .rank = rank,
              .source = identity_,
              .attempt_offset = start.attempt_offset,
              .resumed = resumed,
              .stages = stages_};
  hello.source.id = random_id();
  hello.source.origin = escape_to_utf8(origin);
  return std::make_unique<RankSource>(++next_channel_, std::move(hello), start.attempts, most_records);
}

bool FileFeed::resume(const FileProgress& progress) {
  if (!follower_.resume(progress.place)) return false;
  kept_ = progress.place;
  for (const auto& [rank, start] : progress.ranks) {
    RankFeed& feed = ranks_[rank];
    feed.source = sources_.make(path(), rank, start, true);
    new_sources_.push_back(feed.source.get());
  }
  return true;
}

FileFeed::RankFeed* FileFeed::feed_of(Rank rank) {
  const auto it = ranks_.find(rank);
  if (it != ranks_.end()) return &it->second;
  if (ranks_.size() == limits::kMaxRanksPerFile) return nullptr;
  RankFeed& feed = ranks_[rank];
  feed.source = sources_.make(path(), rank, {}, false);
  new_sources_.push_back(feed.source.get());
  return &feed;
}

bool FileFeed::full() const {
  return std::ranges::any_of(ranks_, [](const auto& entry) { return entry.second.source->full(); });
}

bool FileFeed::pump(std::size_t most) {
  std::size_t bytes = 0;
  bool at_end = false;
  while (bytes < most && !full() && !at_end) {
    if (const auto line = follower_.next()) {
      take(*line);
      bytes += line->text.size() + 1;
    } else {
      at_end = true;
    }
  }
  for (auto& [rank, feed] : ranks_) feed.source->flush();
  counts_.pending_tail = at_end && follower_.has_tail() ? 1 : 0;
  return !at_end;
}

void FileFeed::finish() {
  if (const auto tail = follower_.take_tail()) take(*tail);
  counts_.pending_tail = 0;
  for (auto& [rank, feed] : ranks_) feed.source->flush();
}

void FileFeed::take(const FileFollower::Line& line) {
  if (line.too_long) return counts_.add_rejected(line.number, "line too long");
  parser_.start(line.text);
  const ParsedLine* parsed = parser_.next();
  if (parsed == nullptr) ++counts_.blank;
  for (; parsed != nullptr; parsed = parser_.next()) take(line.number, *parsed);
}

void FileFeed::take(std::uint64_t line_number, const ParsedLine& parsed) {
  if (parsed.kind == LineKind::foreign) return counts_.add_foreign(parsed.reason);
  if (parsed.kind == LineKind::rejected) return counts_.add_rejected(line_number, parsed.reason);
  RankFeed* feed = feed_of(parsed.rank);
  if (feed == nullptr) return counts_.add_rejected(line_number, "too many ranks");
  if (parsed.kind == LineKind::update) {
    if (const auto reason = feed->source->add_update(parsed))
      return counts_.add_rejected(line_number, *reason);
    ++counts_.updates;
    ++feed->updates;
  } else if (parsed.kind == LineKind::config) {
    feed->source->add_config(parsed);
    ++counts_.configs;
    ++feed->configs;
  } else {
    feed->source->add_end();
    ++counts_.ends;
    ++feed->ends;
  }
  feed->ended = parsed.kind == LineKind::end;
}

std::size_t FileFeed::window_bytes() const {
  std::size_t out = 0;
  for (const auto& [rank, feed] : ranks_) out += feed.source->window_bytes();
  return out;
}

void FileFeed::begin_checkpoint() {
  if (checkpoint_.has_value()) return;
  const std::optional<FilePlace> place = follower_.place();
  if (!place.has_value() || place == kept_) return;
  checkpoint_.emplace();
  checkpoint_->progress.place = *place;
  for (const auto& [rank, feed] : ranks_) {
    checkpoint_->progress.ranks[rank] = {feed.source->attempts(), feed.source->attempt_offset()};
    checkpoint_->needs.emplace_back(feed.source.get(), feed.source->last_seq());
  }
}

std::optional<FileProgress> FileFeed::take_checkpoint() {
  if (!checkpoint_.has_value()) return std::nullopt;
  for (const auto& [source, seq] : checkpoint_->needs)
    if (source->committed_seq() < seq) return std::nullopt;
  FileProgress progress = std::move(checkpoint_->progress);
  checkpoint_.reset();
  const bool same_offsets = std::ranges::all_of(progress.ranks, [&](const auto& entry) {
    return entry.second.attempt_offset == ranks_.at(entry.first).source->attempt_offset();
  });
  if (!same_offsets) {
    begin_checkpoint();
    return std::nullopt;
  }
  kept_ = progress.place;
  return progress;
}

}  // namespace laggard::agent
