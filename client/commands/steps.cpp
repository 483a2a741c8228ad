#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"
#include "daemon/base/limits.h"

namespace laggard::client {
namespace {

struct StepsOptions {
  std::string run;
  StepRange range;
  std::optional<std::uint64_t> last;
};

std::string joined(const std::string& a, const std::string& b) { return a.empty() ? b : a + "&" + b; }

// The collector answers at most so many steps at once; the pages become one answer.
Json all_pages(const Collector& collector, const RunRef& run, StepRange range) {
  Json answer = collector.get(run_target(run, "/steps", range.query()));
  for (bool more = truth(at(answer, "more")); more;) {
    const Json& got = answer["steps"];
    const auto newest = got.is_array() && !got.empty() ? integer(at(got.back(), "step")) : std::nullopt;
    if (!newest) break;
    range.from = *newest + 1;
    const Json page = collector.get(run_target(run, "/steps", range.query()));
    const Json& steps = at(page, "steps");
    more = truth(at(page, "more")) && steps.is_array() && !steps.empty();
    if (steps.is_array()) answer["steps"].insert(answer["steps"].end(), steps.begin(), steps.end());
    answer["more"] = more;
  }
  return answer;
}

void show_steps(const Context& context, const StepsOptions& options) {
  options.range.check();
  const Collector collector = context.collector();
  const RunRef run = parse_run(options.run);
  const auto newest = [&] {
    const std::string limit = "newest=1&limit=" + std::to_string(*options.last);
    return collector.get(run_target(run, "/steps", joined(options.range.query(), limit)));
  };
  const Json answer = options.last ? newest() : all_pages(collector, run, options.range);
  if (at(answer, "steps").empty()) no_step(collector, run, options.range);
  context.show(steps_view(answer));
}

}  // namespace

void add_steps(CLI::App& app, Context& context) {
  auto options = std::make_shared<StepsOptions>();
  CLI::App* command =
      add_command(app, "steps", "One row for each step", "While a job runs", "laggard steps job --last 20");
  command->add_option("run", options->run, "The run")->required();
  options->range.add_to(*command);
  command->add_option("--last", options->last, "Only the newest N steps")
      ->check(CLI::Range(std::size_t{1}, limits::kMaxStepsPerAnswer));
  command->callback([&context, options] { show_steps(context, *options); });
}

}  // namespace laggard::client
