#include <set>

#include "daemon/core/compare.h"
#include "daemon/serve/query_error.h"
#include "daemon/serve/query_service.h"

namespace laggard::serve {

Json QueryService::compare(const CompareAsked& asked, History& history, core::UnixMs until) const {
  // Every name is looked up before the first step is read: a mistyped one must not cost a minute.
  std::set<std::pair<std::string, std::uint32_t>> seen;
  const auto resolve = [&](const std::vector<std::string>& names) {
    std::vector<AttemptAsked> runs;
    for (const std::string& name : names) {
      AttemptAsked run = parse_run(name);
      run.attempt = stored_attempt(run, history).attempt;
      if (!seen.emplace(run.run, *run.attempt).second)
        throw QueryError(400, "bad_request",
                         "run \"" + run.run + "\", attempt " + std::to_string(*run.attempt) +
                             ", is named twice, which is no repetition",
                         "name each attempt once, in base or in new");
      runs.push_back(std::move(run));
    }
    return runs;
  };
  const std::vector<AttemptAsked> base = resolve(asked.base), newer = resolve(asked.newer);
  const auto read = [&](const std::vector<AttemptAsked>& runs) {
    std::vector<core::ComparedRun> side;
    for (const AttemptAsked& run : runs) {
      core::RunReport report =
          report_of(run, {.read = {}, .window = asked.window, .until = until, .judged = core::Judged::no},
                    asked.profile, history);
      const core::AttemptRow row = stored_attempt(run, history);
      side.push_back({.report = std::move(report),
                      .first_received = row.first_received,
                      .last_received = row.last_received});
    }
    return side;
  };
  std::vector<core::ComparedRun> before = read(base), after = read(newer);
  return to_json(core::compare_runs(std::move(before), std::move(after), asked.profile));
}

}  // namespace laggard::serve
