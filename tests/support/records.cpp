#include "tests/support/records.h"

#include <algorithm>
#include <limits>

#include "daemon/base/limits.h"

namespace laggard::test {

Layout TestRecord::layout() const {
  Layout layout;
  for (const auto& [name, time] : stream) layout.stream.push_back(name);
  for (const auto& [name, time] : host) layout.host.push_back(name);
  for (const auto& [name, count] : counts) layout.counts.push_back(name);
  return layout;
}

void TestRecord::pack(LayoutTable& layouts, PackedRecords& out) const {
  const LayoutId id = layouts.intern(layout());
  std::vector<double> doubles{wall_ms};
  for (const auto& [name, time] : stream) doubles.push_back(time);
  for (const auto& [name, time] : host) doubles.push_back(time);
  std::vector<std::int64_t> ints;
  for (const auto& [name, count] : counts) ints.push_back(count);
  out.append({.step = step,
              .rank = rank,
              .layout = &layouts[id],
              .doubles = doubles,
              .ints = ints,
              .sample_indices = samples,
              .rest = rest.empty() ? nullptr : &rest},
             id);
}

core::StepRecords step_of(const std::vector<TestRecord>& records, LayoutTable& layouts) {
  core::StepRecords step(records.front().step);
  for (const TestRecord& record : records) {
    PackedRecords packed;
    record.pack(layouts, packed);
    step.add(packed.view(0, layouts[packed.layout_id(0)]), packed.layout_id(0));
  }
  return step;
}

std::optional<core::StoredStep> MemoryArchive::load(core::AttemptId attempt, Step step) {
  const auto it = blocks.find({attempt, step});
  if (it == blocks.end()) return std::nullopt;
  const core::StepView& view = views.at({attempt, step});
  core::StoredStep stored{.records = std::make_unique<core::StepRecords>(step),
                          .state = view.state,
                          .first_received = view.first_received,
                          .settled_at = view.settled_at};
  for (const auto& [block, packed] : it->second) stored.records->add_block(block, packed);
  return stored;
}

void MemoryArchive::commit(const core::Writes& writes) {
  for (const core::RunRow& row : writes.runs) runs[row.id] = row;
  for (const core::AttemptRow& row : writes.attempts) attempts[row.id] = row;
  for (const core::RankRow& row : writes.ranks) {
    core::RankRow& kept = ranks[{row.attempt, row.rank}];
    const std::string settings = row.settings.empty() ? kept.settings : row.settings;
    kept = row;
    kept.settings = settings;
  }
  for (const auto& [attempt, all] : writes.stages) stages[attempt] = all;
  for (const auto& [id, layout] : writes.layouts) layouts.push_back(*layout);
  for (const core::StepRow& row : writes.steps) {
    const std::pair key{row.attempt, row.view->breakdown.step};
    views[key] = *row.view;
    for (const auto& [block, packed] : row.blocks) blocks[key][block] = *packed;
  }
  for (const core::SourceRow& row : writes.sources) sources[row.key] = row;
  for (const core::Expiry& expiry : writes.expired) {
    const auto drop_below = [&](auto& from, std::optional<Step> step) {
      if (step.has_value())
        from.erase(from.lower_bound({expiry.attempt, std::numeric_limits<Step>::min()}),
                   from.lower_bound({expiry.attempt, *step}));
    };
    drop_below(blocks, expiry.records_from);
    drop_below(views, expiry.summaries_from);
  }
}

core::Restored MemoryArchive::restored() const {
  core::Restored restored{.collector_id = "test"};
  for (const auto& [id, row] : runs) restored.runs.push_back(row);
  for (const auto& [id, row] : attempts) restored.attempts.push_back(row);
  for (const auto& [key, row] : ranks) restored.ranks.push_back(row);
  for (const auto& [id, all] : stages) restored.stages.emplace_back(id, all);
  restored.layouts = layouts;
  for (const auto& [key, row] : sources) restored.sources.push_back(row);
  std::map<core::AttemptId, std::map<core::StepState, std::uint64_t>> by_state;
  for (const auto& [key, view] : views) {
    restored.steps.emplace_back(key.first, core::point_of(view, 0));
    if (view.state != core::StepState::open) ++by_state[key.first][view.state];
  }
  restored.steps_by_state.assign(by_state.begin(), by_state.end());
  return restored;
}

TestSource::TestSource(core::Collector& collector, const std::string& run, Rank rank, const std::string& id,
                       const std::string& origin, const std::string& host)
    : collector_(collector) {
  hello_.run = run;
  hello_.rank = rank;
  hello_.source_id = id;
  hello_.origin = origin + std::to_string(rank);
  hello_.host = host;
}

core::Welcomed TestSource::hello(core::UnixMs now, bool resumed, std::uint32_t attempt_offset) {
  hello_.resumed = resumed;
  hello_.attempt_offset = attempt_offset;
  const auto welcomed = std::get<core::Welcomed>(collector_.hello(hello_, layouts_, now));
  key_ = welcomed.source;
  return welcomed;
}

core::Collector::Taken TestSource::config(const std::string& settings, std::uint32_t world_size,
                                          core::UnixMs now) {
  return collector_.apply(
      key_, {.first_seq = next_seq++, .attempt = attempt, .what = core::ConfigItem{world_size, settings}},
      now);
}

core::Collector::Taken TestSource::send(const TestRecord& record, core::UnixMs now,
                                        std::uint64_t dropped_before) {
  core::Items items{.first_seq = next_seq++,
                    .dropped_before = dropped_before,
                    .attempt = attempt,
                    .first_layout = layouts_.size()};
  const Layout layout = record.layout();
  auto known = std::find(layouts_.begin(), layouts_.end(), layout);
  if (known == layouts_.end()) {
    items.layouts.push_back(layout);
    known = layouts_.insert(layouts_.end(), layout);
  }
  LayoutTable table;
  PackedRecords packed;
  record.pack(table, packed);
  PackedRecords numbered;
  numbered.append(packed.view(0, table[0]), static_cast<LayoutId>(known - layouts_.begin()));
  items.what = std::move(numbered);
  return collector_.apply(key_, items, now);
}

core::Collector::Taken TestSource::end(core::UnixMs now) {
  return collector_.apply(key_, {.first_seq = next_seq++, .attempt = attempt, .what = core::EndItem{}}, now);
}

}  // namespace laggard::test
