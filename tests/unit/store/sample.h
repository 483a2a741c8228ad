// Data to store, made by hand: a job of 4 ranks with two stages.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/writes.h"

namespace laggard::test {

/// A directory that goes with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string contents(const std::filesystem::path& file);

inline constexpr core::AttemptId kAttempt = 7;
inline constexpr core::StageId kForward = 0, kBackward = 1;

class Sample {
 public:
  Sample();

  /// The run "job" (id 1), its attempt 1 (id 7) of 4 ranks, both stages, the layout.
  core::Writes facts() const;
  /// Adds a step of these ranks to `writes`; its numbers differ from step to step and rank to rank. The
  /// records live as long as the sample.
  core::StepRow& add_step(Step step, const std::vector<Rank>& ranks, core::Writes* writes);
  core::StepRecords& add_records(Step step, const std::vector<Rank>& ranks);
  /// A step's summary with every field set to something; no record behind it.
  static std::shared_ptr<core::StepView> view(Step step);

  LayoutTable layouts;

 private:
  LayoutId layout_;
  std::vector<std::unique_ptr<core::StepRecords>> records_;
};

/// Every number of a breakdown and its state, NaNs by their bits; for comparing two of them.
std::string describe(const core::StepView& view);
/// Every record with the bits of its numbers.
std::string describe(const core::StepRecords& records, const LayoutTable& layouts);
std::string describe(const core::RankRow& row);
std::string describe(const core::SourceRow& row);

}  // namespace laggard::test
