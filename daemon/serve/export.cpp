#include "daemon/serve/export.h"

#include <limits>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/serve/record_lines.h"

namespace laggard::serve {

Export::Export(const QueryService& service, const AttemptAsked& asked, History& history)
    : service_(service), attempt_(service.stored_attempt(asked, history).id) {
  for (core::RankRow& rank : history.ranks(attempt_))
    if (!rank.settings.empty()) settings_.push_back(std::move(rank.settings));
}

void Export::read_ahead(History& history) {
  service_.check_cancelled();
  core::Window window;
  if (last_step_.has_value() && *last_step_ < std::numeric_limits<Step>::max()) window.from = *last_step_ + 1;
  std::size_t bytes = 0;
  if (last_step_ != std::numeric_limits<Step>::max())
    history.each_step(attempt_, window, [&](const core::StepRecords& records, const LayoutTable&) {
      steps_.push_back(records);
      bytes += records.byte_size();
      return bytes < limits::kExportReadAheadBytes;
    });
  all_read_ = steps_.empty();
  if (all_read_) return;
  last_step_ = steps_.back().step();
  ranks_ = steps_.front().ranks();
  next_rank_ = 0;
}

void Export::write_step(const LayoutTable& layouts, std::size_t enough, std::string* out) {
  for (; next_rank_ < ranks_.size() && out->size() < enough; ++next_rank_)
    if (const auto record = steps_.front().find(ranks_[next_rank_], layouts))
      append_update_line(*record, out);
  if (next_rank_ < ranks_.size()) return;
  steps_.pop_front();
  ranks_ = steps_.empty() ? std::vector<Rank>{} : steps_.front().ranks();
  next_rank_ = 0;
}

bool Export::next(History& history, std::string* out) {
  const LayoutTable& layouts = history.layouts();
  const std::size_t enough = out->size() + limits::kExportChunkBytes;
  while (next_setting_ < settings_.size() && out->size() < enough)
    append_config_line(settings_[next_setting_++], out);
  while (!all_read_ && out->size() < enough) {
    if (steps_.empty()) read_ahead(history);
    if (!all_read_) write_step(layouts, enough, out);
  }
  return !all_read_ || next_setting_ < settings_.size();
}

}  // namespace laggard::serve
