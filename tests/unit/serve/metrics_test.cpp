#include "daemon/serve/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/base/limits.h"
#include "daemon/serve/metrics_text.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

using Labels = std::map<std::string, std::string>;
using Samples = std::map<std::pair<std::string, Labels>, double>;

/// Reads the text format by its grammar, knowing nothing of how it was written. Fails the test on a line it
/// cannot read and on a sample that stands twice.
class PageReader {
 public:
  explicit PageReader(const std::string& page) : text_(page) {
    while (at_ < text_.size()) line();
  }
  Samples samples;
  std::map<std::string, std::string> types;

 private:
  void line() {
    const std::size_t end = text_.find('\n', at_);
    ASSERT_NE(end, std::string::npos) << "the last line has no end";
    if (text_[at_] == '#') {
      const std::string comment = text_.substr(at_, end - at_);
      if (comment.starts_with("# TYPE ")) {
        const std::size_t space = comment.find(' ', 7);
        types[comment.substr(7, space - 7)] = comment.substr(space + 1);
      }
      at_ = end + 1;
      return;
    }
    std::string name = until("{ ");
    Labels labels;
    if (text_[at_] == '{') {
      do {
        ++at_;
        const std::string label = until("=");
        at_ += 2;
        labels[label] = quoted();
      } while (text_[at_] == ',');
      ++at_;
    }
    ++at_;
    const std::string value = until("\n");
    ++at_;
    char* rest = nullptr;
    const double number = std::strtod(value.c_str(), &rest);
    ASSERT_EQ(*rest, '\0') << value;
    ASSERT_TRUE(types.contains(name)) << name << " has no TYPE before it";
    ASSERT_TRUE(samples.emplace(std::pair(name, labels), number).second) << name << " stands twice";
  }

  std::string until(const char* stops) {
    const std::size_t end = text_.find_first_of(stops, at_);
    std::string part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }

  std::string quoted() {
    std::string out;
    for (; text_[at_] != '"'; ++at_) {
      char c = text_[at_];
      if (c == '\\') {
        c = text_[++at_];
        if (c == 'n') c = '\n';
      }
      out += c;
    }
    ++at_;
    return out;
  }

  const std::string text_;
  std::size_t at_ = 0;
};

class MetricsTest : public testing::Test {
 protected:
  std::string page(bool ranks = false) { return metrics_page(service_, counters_, ranks); }
  Samples samples(bool ranks = false) { return PageReader(page(ranks)).samples; }
  void show(core::AttemptView view) { snapshot_ = test::snapshot_of({test::run_view("job", {1}, view)}); }

  test::FakeStore store_;
  std::shared_ptr<const core::Snapshot> snapshot_;
  Counters counters_{};
  QueryService service_{test::collector_with([this] { return snapshot_; })};
};

std::size_t count(const Samples& samples, const std::string& name) {
  std::size_t n = 0;
  for (const auto& [key, value] : samples) n += key.first == name ? 1 : 0;
  return n;
}

std::size_t of_run(const Samples& samples) {
  std::size_t n = 0;
  for (const auto& [key, value] : samples) n += key.second.contains("run") ? 1 : 0;
  return n;
}

TEST_F(MetricsTest, ARunsFiguresAreInBaseUnits) {
  test::add_job(store_);
  show(test::live_view(store_.runs["job"][2]));
  const Samples all = samples();
  const Labels run{{"run", "job"}};
  const auto with = [&](Labels more) {
    more.insert(run.begin(), run.end());
    return more;
  };
  EXPECT_EQ(all.at({"laggard_step_wall_seconds", with({{"stat", "max"}})}), 0.11);
  EXPECT_EQ(all.at({"laggard_step_wall_seconds", with({{"stat", "median"}})}), 0.1);
  EXPECT_EQ(
      all.at({"laggard_stage_seconds", with({{"stage", "compute"}, {"clock", "stream"}, {"stat", "max"}})}),
      0.09);
  EXPECT_EQ(all.at({"laggard_slowest_rank", run}), 1);
  EXPECT_EQ(all.at({"laggard_culprit_rank", run}), 1);
  EXPECT_EQ(all.at({"laggard_settled_step", run}), 7);
  EXPECT_EQ(all.at({"laggard_last_step", run}), 8);
  EXPECT_EQ(all.at({"laggard_last_record_timestamp_seconds", run}), 1'700'000'100);
  EXPECT_EQ(all.at({"laggard_ranks_expected", run}), 4);
  EXPECT_EQ(all.at({"laggard_ranks_reporting", run}), 4);
  EXPECT_EQ(all.at({"laggard_steps", with({{"state", "open"}})}), 1);
  EXPECT_EQ(all.at({"laggard_run_state", with({{"state", "running"}})}), 1);
  EXPECT_EQ(all.at({"laggard_run_state", with({{"state", "stalled"}})}), 0);
  EXPECT_EQ(all.at({"laggard_run_state", with({{"state", "lost"}})}), 0);
  EXPECT_EQ(all.at({"laggard_run_info", with({{"attempt", "2"}, {"world_size", "4"}})}), 1);
  EXPECT_EQ(all.at({"laggard_ingest_events_total", {{"event", "messages_malformed"}}}), 3);
  EXPECT_EQ(all.at({"laggard_storage_bytes", {{"part", "wal"}}}), 512);
}

TEST_F(MetricsTest, NobodyIsNamedWhenNobodyIsToBlame) {
  test::FakeAttempt& attempt = store_.attempt("job", 1, 2);
  store_.add(attempt, 1, 0, 100.00, {{"compute", 60}});
  store_.add(attempt, 1, 1, 100.05, {{"compute", 60}});  // within 0.1 %: a near tie
  store_.settle(attempt, 1, core::StepState::complete);
  show(test::live_view(attempt));
  const Samples all = samples();
  EXPECT_EQ(count(all, "laggard_step_wall_seconds"), 2U);
  EXPECT_EQ(count(all, "laggard_slowest_rank"), 0U);
  EXPECT_EQ(count(all, "laggard_culprit_rank"), 0U);
}

TEST_F(MetricsTest, ValuesComeBackAsTheSameBits) {
  MetricsText page;
  MetricsText::Family& family = page.gauge("laggard_x", "X.");
  const std::vector<double> values{15.479411385953426, 1e-320, 1.7976931348623157e308, 0.1 + 0.2, -0.0};
  for (std::size_t i = 0; i < values.size(); ++i) family.add({{"i", std::to_string(i)}}, values[i]);
  const Samples all = PageReader(page.text()).samples;
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(all.at({"laggard_x", {{"i", std::to_string(i)}}}), values[i]) << i;
}

// Case A19: names that break a page when they are not escaped.
TEST_F(MetricsTest, EveryStageNameComesBackUnchanged) {
  const std::string dir = std::string(LAGGARD_TEST_DATA) + "/cases/A19/";
  std::ifstream names(dir + "names.jsonl");
  std::string line;
  std::getline(names, line);
  std::getline(names, line);
  const auto record = nlohmann::json::parse(line);
  test::FakeAttempt& attempt = store_.attempt("job", 1, 1);
  test::Times times;
  for (const auto& [name, ms] : record["cuda_stream_ms"].items()) times.emplace_back(name, ms.get<double>());
  store_.add(attempt, 1, 0, record["wall_ms"].get<double>(), times);
  store_.settle(attempt, 1, core::StepState::complete);
  show(test::live_view(attempt));

  const Samples all = samples();
  std::ifstream expected_file(dir + "expected.json");
  const auto expected = nlohmann::json::parse(expected_file);
  ASSERT_EQ(expected["label_values_after_parsing"].size(), 6U);
  for (const auto& [name, ms] : expected["label_values_after_parsing"].items())
    EXPECT_EQ(all.at({"laggard_stage_seconds",
                      {{"run", "job"}, {"stage", name}, {"clock", "stream"}, {"stat", "max"}}}),
              ms.get<double>() / 1000)
        << name;
  for (const auto& [name, text] : expected["on_the_wire"].items())
    EXPECT_THAT(page(), testing::HasSubstr(text.get<std::string>()));
}

TEST_F(MetricsTest, PromtoolReadsThePage) {
  test::add_job(store_);
  test::FakeAttempt& attempt = store_.runs["job"][2];
  store_.add(attempt, 9, 0, 100, {{"a\"b", 1}, {"c\\d", 1}, {"e\nf", 1}, {"brace}{,=", 1}});
  store_.settle(attempt, 9, core::StepState::partial);
  show(test::live_view(attempt));
  counters_.count_answer(200);
  std::FILE* promtool = popen(LAGGARD_PROMTOOL " check metrics 2>&1", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = page(true);
  std::fwrite(text.data(), 1, text.size(), promtool);
  EXPECT_EQ(pclose(promtool), 0) << text;
}

TEST_F(MetricsTest, ANameThatNoLabelCanHoldIsLeftOutAndCounted) {
  test::FakeAttempt& attempt = store_.attempt("job", 1, 1);
  store_.add(attempt, 1, 0, 100, {{"good", 1}, {"bad\xff", 2}, {std::string("nul\0", 4), 3}});
  store_.settle(attempt, 1, core::StepState::complete);
  show(test::live_view(attempt));
  EXPECT_EQ(count(samples(), "laggard_stage_seconds"), 2U);
  EXPECT_EQ(counters_.series_dropped_names, 4U);
}

// Case A20: the number of series depends on runs and stages alone.
TEST_F(MetricsTest, SeriesDoNotGrowWithSteps) {
  test::FakeAttempt& attempt = store_.attempt("job", 1, 4);
  std::size_t after_50 = 0;
  for (Step step = 1; step <= 5000; ++step) {
    for (Rank rank = 0; rank < 4; ++rank)
      store_.add(attempt, step, rank, 100 + rank, {{"compute", 60.0 + rank}, {"all_reduce", 30}});
    store_.settle(attempt, step, core::StepState::complete);
    if (step != 50) continue;
    show(test::live_view(attempt));
    after_50 = samples(true).size();
  }
  show(test::live_view(attempt));
  EXPECT_EQ(samples(true).size(), after_50);
  EXPECT_EQ(count(samples(), "laggard_stage_seconds"), 4U) << "2 stages, 1 clock, 2 statistics";
}

TEST_F(MetricsTest, NoLabelHoldsAStepAHostOrATime) {
  test::add_job(store_);
  show(test::live_view(store_.runs["job"][2]));
  const std::set<std::string> allowed{"run",     "stat",    "stage", "clock",      "state",
                                      "result",  "attempt", "event", "world_size", "part",
                                      "version", "reason",  "code"};
  for (const auto& [key, value] : samples())
    for (const auto& [label, text] : key.second)
      EXPECT_TRUE(allowed.contains(label)) << key.first << " " << label;
}

TEST_F(MetricsTest, ASilentRanksGaugesVanish) {
  test::add_job(store_);
  core::AttemptView view = test::live_view(store_.runs["job"][2]);
  view.ranks[2].last_received = test::kNow - 60'000;
  show(view);
  const Samples all = samples(true);
  const Labels rank{{"run", "job"}, {"rank", "2"}};
  EXPECT_EQ(all.at({"laggard_rank_silent", rank}), 1);
  EXPECT_FALSE(all.contains({"laggard_rank_wall_seconds", rank}));
  EXPECT_FALSE(all.contains({"laggard_rank_last_step", rank}));
  EXPECT_EQ(all.at({"laggard_rank_last_step", {{"run", "job"}, {"rank", "1"}}}), 8);
  EXPECT_EQ(all.at({"laggard_ranks_reporting", {{"run", "job"}}}), 3);
  EXPECT_EQ(all.at({"laggard_ranks_silent", {{"run", "job"}}}), 1);
  EXPECT_EQ(count(samples(false), "laggard_rank_silent"), 0U) << "series of ranks only when asked";
}

TEST_F(MetricsTest, AnEndedOrClosedRunHasNoSeries) {
  test::add_job(store_);
  core::AttemptView live = test::live_view(store_.runs["job"][2]);
  show(live);
  ASSERT_GT(of_run(samples(true)), 0U);

  core::AttemptView ended = live;
  for (core::RankView& rank : ended.ranks) rank.ended = true;
  show(ended);
  EXPECT_EQ(of_run(samples(true)), 0U);
  EXPECT_EQ(samples().at({"laggard_runs", {{"state", "ended"}}}), 1);

  auto closed = test::run_view("job", {1}, live);
  closed->closed = true;
  snapshot_ = test::snapshot_of({closed});
  EXPECT_EQ(of_run(samples(true)), 0U);
}

// Or the alerts on a dead job would resolve when it has been dead for long.
TEST_F(MetricsTest, ALostRunKeepsItsStateAndItsSilentRanksForADay) {
  test::add_job(store_);
  core::AttemptView lost = test::live_view(store_.runs["job"][2]);
  for (core::RankView& rank : lost.ranks) {
    rank.live = false;
    rank.last_received = test::kNow - lost.lost_after_ms - 1;
  }
  lost.last_received = test::kNow - lost.lost_after_ms - 1;
  show(lost);
  const Samples all = samples(true);
  EXPECT_EQ(all.at({"laggard_run_state", {{"run", "job"}, {"state", "running"}}}), 0);
  EXPECT_EQ(all.at({"laggard_run_state", {{"run", "job"}, {"state", "stalled"}}}), 0);
  EXPECT_EQ(all.at({"laggard_run_state", {{"run", "job"}, {"state", "lost"}}}), 1);
  EXPECT_EQ(all.at({"laggard_ranks_silent", {{"run", "job"}}}), 4);
  EXPECT_EQ(of_run(all), 4U) << "and no other";

  constexpr core::UnixMs kDay = 86'400'000;
  lost.last_received = test::kNow - lost.lost_after_ms - kDay;
  show(lost);
  EXPECT_EQ(of_run(samples(true)), 4U);
  --lost.last_received;
  show(lost);
  EXPECT_EQ(of_run(samples(true)), 0U);
  EXPECT_EQ(samples().at({"laggard_runs", {{"state", "lost"}}}), 1);

  lost.last_received = test::kNow - lost.lost_after_ms - 1;
  auto closed = test::run_view("job", {1}, lost);
  closed->closed = true;
  snapshot_ = test::snapshot_of({closed});
  EXPECT_EQ(of_run(samples(true)), 0U);
}

TEST_F(MetricsTest, ALostRunTakesNoRoomFromOneThatGoesOn) {
  const core::AttemptView live = test::live_view(store_.attempt("job", 1, 0));
  core::AttemptView running = live, lost = live;
  running.last_received = test::kNow;
  lost.last_received = test::kNow - lost.lost_after_ms - 1;
  std::vector<std::shared_ptr<const core::RunView>> runs{test::run_view("a", {1}, lost),
                                                         test::run_view("b", {1}, lost)};
  for (std::size_t i = 1; i < limits::kMaxMetricRuns; ++i)
    runs.push_back(test::run_view("job" + std::to_string(1000 + i), {1}, running));
  snapshot_ = test::snapshot_of(runs);
  const Samples all = samples();
  EXPECT_EQ(count(all, "laggard_run_info"), limits::kMaxMetricRuns - 1);
  EXPECT_TRUE(all.contains({"laggard_run_state", {{"run", "a"}, {"state", "lost"}}}));
  EXPECT_FALSE(all.contains({"laggard_run_state", {{"run", "b"}, {"state", "lost"}}}));
  EXPECT_EQ(counters_.series_dropped_runs, 1U);
}

TEST_F(MetricsTest, LinesThatNobodySaidHaveNoSample) {
  test::add_job(store_);
  core::AttemptView view = test::live_view(store_.runs["job"][2]);
  show(view);
  EXPECT_EQ(count(samples(), "laggard_lines_total"), 0U);
  EXPECT_EQ(count(samples(), "laggard_lines_pending"), 0U);
  view.lines = core::LineTotals{.accepted = 20, .foreign = 3, .rejected = 2, .pending_tail = 1};
  show(view);
  const Samples all = samples();
  EXPECT_EQ(all.at({"laggard_lines_total", {{"run", "job"}, {"result", "accepted"}}}), 20);
  EXPECT_EQ(all.at({"laggard_lines_total", {{"run", "job"}, {"result", "foreign"}}}), 3);
  EXPECT_EQ(all.at({"laggard_lines_total", {{"run", "job"}, {"result", "rejected"}}}), 2);
  EXPECT_EQ(all.at({"laggard_lines_pending", {{"run", "job"}}}), 1);
}

TEST_F(MetricsTest, StagesAndRanksAreCappedAndCounted) {
  test::FakeAttempt& attempt = store_.attempt("job", 1, 0);
  test::Times times;
  for (int i = 0; i < 300; ++i) times.emplace_back("invented_" + std::to_string(i), 1);
  store_.add(attempt, 1, 0, 100, times);
  store_.settle(attempt, 1, core::StepState::complete);
  core::AttemptView view = test::live_view(attempt);
  for (Rank rank = 1; rank < limits::kMaxMetricRanks + 2; ++rank)
    view.ranks.push_back({.rank = rank, .reported = true, .last_step = 1, .last_received = test::kNow});
  show(view);
  const Samples all = samples(true);
  EXPECT_EQ(count(all, "laggard_stage_seconds"), 2 * limits::kMaxMetricStages);
  EXPECT_EQ(all.at({"laggard_series_dropped_total", {{"reason", "stages"}}}),
            2 * (300 - limits::kMaxMetricStages));
  EXPECT_EQ(count(all, "laggard_rank_silent"), limits::kMaxMetricRanks);
  EXPECT_EQ(all.at({"laggard_series_dropped_total", {{"reason", "ranks"}}}), 3 * 2);
}

TEST_F(MetricsTest, ManyRunsShareTheRoomOfThePage) {
  // 60 runs of 200 stages, where 10,000 have room: those of the first 50. 60 times 100 ranks, where 4,096
  // have room: those of 40 runs and 96 of the next.
  test::FakeAttempt& attempt = store_.attempt("job", 1, 0);
  test::Times times;
  for (int i = 0; i < 200; ++i) times.emplace_back("stage_" + std::to_string(i), 1);
  for (Rank rank = 0; rank < 100; ++rank) store_.add(attempt, 1, rank, 100, times);
  store_.settle(attempt, 1, core::StepState::complete);
  std::vector<std::shared_ptr<const core::RunView>> runs;
  for (int i = 10; i < 70; ++i)
    runs.push_back(test::run_view("job" + std::to_string(i), {1}, test::live_view(attempt)));
  snapshot_ = test::snapshot_of(runs);
  const Samples all = samples(true);
  EXPECT_EQ(count(all, "laggard_stage_seconds"), 2U * 10'000U);
  EXPECT_TRUE(
      all.contains({"laggard_stage_seconds",
                    {{"run", "job59"}, {"stage", "stage_199"}, {"clock", "stream"}, {"stat", "max"}}}));
  EXPECT_EQ(counters_.series_dropped_stages, 2U * 10U * 200U);
  EXPECT_EQ(count(all, "laggard_rank_silent"), 4'096U);
  EXPECT_TRUE(all.contains({"laggard_rank_silent", {{"run", "job50"}, {"rank", "95"}}}));
  EXPECT_EQ(counters_.series_dropped_ranks, 3U * (6'000U - 4'096U));
  EXPECT_EQ(count(all, "laggard_run_info"), 60U);
}

}  // namespace
}  // namespace laggard::serve
