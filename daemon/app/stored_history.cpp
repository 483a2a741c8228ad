#include "daemon/app/stored_history.h"

#include <string>

#include "daemon/store/reader.h"

namespace laggard::app {
namespace {

using std::chrono::milliseconds;

class StoredHistory final : public serve::History {
  template <typename Query>
  decltype(auto) in_time(const Query& query) {
    try {
      return query();
    } catch (const store::QueryTimeout& timeout) {
      throw serve::QueryTimeout(timeout.what());
    }
  }

 public:
  StoredHistory(const std::filesystem::path& database, milliseconds limit) : reader_(database, limit) {}

  std::optional<core::AttemptRow> attempt(std::string_view run,
                                          std::optional<std::uint32_t> number) override {
    return in_time([&]() -> std::optional<core::AttemptRow> {
      const std::vector<core::AttemptRow> attempts = reader_.attempts(run);
      if (!number.has_value() && !attempts.empty()) return attempts.back();
      for (const core::AttemptRow& row : attempts)
        if (row.attempt == number) return row;
      return std::nullopt;
    });
  }

  std::vector<core::RankRow> ranks(core::AttemptId attempt) override {
    return in_time([&] { return reader_.ranks(attempt); });
  }

  core::StageTable stages(core::AttemptId attempt) override {
    return in_time([&] { return reader_.stages(attempt); });
  }

  std::vector<core::StepView> steps(core::AttemptId attempt, core::Window window, std::size_t limit,
                                    bool newest) override {
    return in_time([&] {
      return reader_.steps(attempt, {.from = window.from, .to = window.to, .limit = limit, .newest = newest});
    });
  }

  std::optional<core::StepView> step(core::AttemptId attempt, Step step) override {
    return in_time([&]() -> std::optional<core::StepView> {
      auto stored = reader_.step(attempt, step);
      if (!stored.has_value()) return std::nullopt;
      return std::move(stored->view);
    });
  }

  void each_step(core::AttemptId attempt, core::Window window, const Visit& visit) override {
    in_time([&] {
      reader_.for_each_step(attempt, window.from, window.to, [&](const core::StepRecords& records) {
        return visit(records, reader_.layouts());
      });
    });
  }

  const LayoutTable& layouts() override {
    return in_time([&]() -> const LayoutTable& { return reader_.layouts(); });
  }

 private:
  store::Reader reader_;
};

}  // namespace

std::unique_ptr<serve::History> open_history(const std::filesystem::path& database, milliseconds limit) {
  return std::make_unique<StoredHistory>(database, limit);
}

}  // namespace laggard::app
