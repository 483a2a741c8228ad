// The main acceptance, as far as the client goes: what the author of the four runs published stands in the
// report digit for digit.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/client/stub_collector.h"

namespace laggard::client {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

const Lines kRuns = {"run1_bs4", "run2_bs8", "run3_bs8", "run4_bs4"};

Json load(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

/// The words of the first line below `title` that begins with `first`; notes in brackets are no words.
Lines words_below(const std::string& text, const std::string& title, const std::string& first) {
  std::istringstream lines(text.substr(text.find(title)));
  for (std::string line; std::getline(lines, line);) {
    for (std::size_t open; (open = line.find('(')) != std::string::npos;) {
      line.erase(open, line.find(')', open) - open + 1);
    }
    std::istringstream in(line);
    Lines words;
    for (std::string word; in >> word;) words.push_back(word);
    if (!words.empty() && words[0] == first) return words;
  }
  return {};
}

class PublishedReport : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Json fixture = load(LAGGARD_CLIENT_GOLDEN "/report_published.json");
    const StubCollector collector({{"POST /api/v1/report", {200, fixture["POST /api/v1/report"].dump()}}});
    outcome_ = run_command({"--collector", collector.address(), "report", kRuns[0], kRuns[1], kRuns[2],
                            kRuns[3], "--profile", LAGGARD_TEST_DATA "/published_runs/profile.toml"});
    published_ = load(LAGGARD_TEST_DATA "/published_summary.json");
  }
  static inline Outcome outcome_;
  static inline Json published_;
};

TEST_F(PublishedReport, BeginsWithTheMatchLine) {
  EXPECT_EQ(outcome_.code, ExitCode::fine) << outcome_.err;
  EXPECT_EQ(outcome_.out.substr(0, outcome_.out.find('\n')),
            "match: PASS (sample indices, token/frame counts, settings)");
}

TEST_F(PublishedReport, HasTheFiguresOfEachRun) {
  for (const std::string& run : kRuns) {
    const Json& published = published_["runs"][run];
    EXPECT_EQ(words_below(outcome_.out, "run ", run),
              (Lines{run, std::to_string(published["micro_batch"].get<int>()), published["max_rank_wall_s"],
                     published["samples_per_s"], published["padding_pct"], published["fallback_pct"], "20"}));
  }
}

TEST_F(PublishedReport, HasTheFourteenStagesInOrder) {
  std::size_t position = 0;
  int rows = 0;
  for (const auto& [stage, value] : published_["runs"][kRuns[0]]["stages_s"].items()) {
    const Lines words = words_below(outcome_.out, "Stages, s/update, stream clock", stage);
    ASSERT_GE(words.size(), 5U) << stage;
    for (std::size_t i = 0; i < kRuns.size(); ++i) {
      EXPECT_EQ(words[i + 1], published_["runs"][kRuns[i]]["stages_s"][stage]) << stage << " of " << kRuns[i];
    }
    const std::size_t found = outcome_.out.find(" " + stage + " ", position);
    position = found != std::string::npos ? found : outcome_.out.find("\n" + stage + " ", position);
    EXPECT_NE(position, std::string::npos) << stage << " is out of order";
    ++rows;
  }
  EXPECT_EQ(rows, 14);
}

TEST_F(PublishedReport, HasCpuBatchFetch) {
  const Lines words = words_below(outcome_.out, "CPU batch-fetch", "batch_fetch_and_count");
  ASSERT_GE(words.size(), 5U);
  for (std::size_t i = 0; i < kRuns.size(); ++i) {
    EXPECT_EQ(words[i + 1], published_["runs"][kRuns[i]]["cpu_batch_fetch_s"]);
  }
}

TEST_F(PublishedReport, HasTheMeanWallOfEachRankToTwelveDigits) {
  for (const char* rank : {"0", "1", "2", "3"}) {
    const Lines words = words_below(outcome_.out, "Mean wall of each rank", rank);
    ASSERT_EQ(words.size(), 5U);
    for (std::size_t i = 0; i < kRuns.size(); ++i) {
      const double published = published_["runs"][kRuns[i]]["rank_wall_s"][rank];
      EXPECT_NEAR(std::stod(words[i + 1]), published, 1e-11);
      EXPECT_GE(words[i + 1].size(), 13U) << "12 digits and the point";
    }
  }
}

TEST_F(PublishedReport, HasTheFramesHistogram) {
  for (const auto& [frames, n] : published_["frames"].items()) {
    const std::string count = std::to_string(n.get<int>());
    EXPECT_EQ(words_below(outcome_.out, "frame_histogram", frames),
              (Lines{frames, count, count, count, count}));
  }
}

TEST_F(PublishedReport, KeepsTheReaderHonest) {
  EXPECT_NE(outcome_.out.find("must not be added up"), std::string::npos);
  EXPECT_NE(outcome_.out.find("waiting for other ranks"), std::string::npos);
}

}  // namespace
}  // namespace laggard::client
