#include "daemon/serve/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/limits.h"
#include "daemon/base/value.h"
#include "daemon/serve/record_lines.h"
#include "tests/unit/serve/fixture.h"

namespace laggard::serve {
namespace {

TEST(RecordLines, AnUpdateIsWrittenAsScriptsWriteIt) {
  const Layout layout{.stream = {"forward", "a\"b\n"},
                      .host = {"forward"},
                      .calls = {"forward"},
                      .counts = {"samples"},
                      .int_values = {"epoch"},
                      .values = {"padding_fraction", "loss"}};
  const std::vector<double> doubles{9000, 0.1, 6009.51708984375, 1e22, 0.08, -0.0};
  const std::vector<std::int64_t> ints{2, 9'007'199'254'740'993, -3};
  const std::vector<std::int64_t> samples{16, 17};
  const RecordRest rest{.histograms = {{"frame_histogram", {{"9", 14}, {"7", 2}}}}, .tags = {"eval"}};
  std::string line;
  append_update_line({.step = 11,
                      .rank = 3,
                      .layout = &layout,
                      .doubles = doubles,
                      .ints = ints,
                      .sample_indices = samples,
                      .rest = &rest},
                     &line);
  EXPECT_EQ(line, R"({"type": "update", "rank": 3, "step": 11, "wall_ms": 9000.0, )"
                  R"("cuda_stream_ms": {"forward": 0.1, "a\"b\n": 6009.51708984375}, )"
                  R"("cpu_call_ms": {"forward": 1e+22}, "calls": {"forward": 2}, )"
                  R"("counts": {"samples": 9007199254740993}, "frame_histogram": {"9": 14, "7": 2}, )"
                  R"("sample_indices": [16, 17], "tags": ["eval"], "epoch": -3, "padding_fraction": 0.08, )"
                  R"("loss": -0.0})"
                  "\n");
}

TEST(RecordLines, WhatWasNoNumberComesBackAsItCame) {
  const Layout layout{.stream = {"a", "b", "c", "d"}, .values = {"loss"}};
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> doubles{
      std::numeric_limits<double>::quiet_NaN(), kNull, kText, inf, kAbsent, -inf};
  const RecordRest rest{.extra = R"({"big":123456789012345678901234567890,"cuda_stream_ms":{"c":"fast"},)"
                                 R"("list":[1.0, NaN],"note":"NaN","x":NaN})"};
  std::string line;
  append_update_line({.step = 1, .rank = 0, .layout = &layout, .doubles = doubles, .rest = &rest}, &line);
  EXPECT_EQ(line, R"({"type": "update", "rank": 0, "step": 1, "wall_ms": NaN, )"
                  R"("cuda_stream_ms": {"a": null, "c": Infinity, "c": "fast"}, )"
                  R"("loss": -Infinity, "big": 123456789012345678901234567890, "list": [1.0, NaN], )"
                  R"("note": "NaN", "x": NaN})"
                  "\n");
}

TEST(RecordLines, AConfigIsOneLineWithItsTypeFirst) {
  std::string line;
  append_config_line("{\"lr\": 0.10,\n \"rank\": 1, \"type\": \"config\", \"deep\": {\"a\":\n [1]}}", &line);
  EXPECT_EQ(line, "{\"type\": \"config\", \"lr\": 0.10, \"rank\": 1, \"deep\": {\"a\":  [1]}}\n");
}

TEST(RecordLines, SettingsThatAreNoJsonGiveALineAllTheSame) {
  std::string line;
  append_config_line("garbage", &line);
  EXPECT_EQ(line, "{\"type\": \"config\"}\n");
}

class ExportTest : public testing::Test {
 protected:
  std::vector<std::string> lines_of(Export& out) {
    std::string text;
    bool more = true;
    while (more) {
      std::string piece;
      more = out.next(history_, &piece);
      largest_ = std::max(largest_, piece.size());
      text += piece;
    }
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  test::FakeStore store_;
  test::FakeHistory history_{store_};
  std::shared_ptr<const core::Snapshot> snapshot_;
  QueryService service_{test::collector_with([this] { return snapshot_; })};
  std::size_t largest_ = 0;
};

TEST_F(ExportTest, ConfigsComeFirstThenRecordsByStepAndRank) {
  test::add_job(store_);
  snapshot_ = test::snapshot_of({test::run_view("job", {1, 2}, test::live_view(store_.runs["job"][2]))});
  Export out(service_, {.run = "job"}, history_);
  const std::vector<std::string> lines = lines_of(out);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0], R"({"type": "config", "lr": NaN, "world_size": 4})");
  for (int i = 0; i < 4; ++i)
    EXPECT_THAT(lines[static_cast<std::size_t>(1 + i)],
                testing::HasSubstr("\"rank\": " + std::to_string(i) + ", \"step\": 7"));
  EXPECT_THAT(lines[6], testing::HasSubstr(R"("rank": 1, "step": 8)"));
}

TEST_F(ExportTest, ALongExportComesInPiecesAndLosesNothing) {
  test::FakeAttempt& attempt = store_.attempt("job", 1, 8);
  constexpr Step kSteps = 500;
  for (Step step = 1; step <= kSteps; ++step)
    for (Rank rank = 0; rank < 8; ++rank) store_.add(attempt, step, rank, 100, {{std::string(200, 's'), 1}});
  snapshot_ = test::snapshot_of({test::run_view("job", {1}, test::live_view(attempt))});
  Export out(service_, {.run = "job"}, history_);
  const std::vector<std::string> lines = lines_of(out);
  ASSERT_EQ(lines.size(), 8U * kSteps);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_THAT(lines[i], testing::HasSubstr("\"rank\": " + std::to_string(i % 8) +
                                             ", \"step\": " + std::to_string(1 + i / 8) + ","));
  EXPECT_LT(largest_, limits::kExportChunkBytes + 1000)
      << "a piece is as large as asked for, and a line more";
}

}  // namespace
}  // namespace laggard::serve
