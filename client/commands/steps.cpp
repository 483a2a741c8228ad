#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/views/views.h"

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
  const Collector collector = context.collector();
  const RunRef run = parse_run(options.run);
  if (!options.last) return context.show(steps_view(all_pages(collector, run, options.range)));
  const std::string query = joined(options.range.query(), "newest=1&limit=" + std::to_string(*options.last));
  context.show(steps_view(collector.get(run_target(run, "/steps", query))));
}

}  // namespace

void add_steps(CLI::App& app, Context& context) {
  auto options = std::make_shared<StepsOptions>();
  CLI::App* command =
      add_command(app, "steps", "One row for each step", "While a job runs", "laggard steps job --last 20");
  command->add_option("run", options->run, "The run")->required();
  options->range.add_to(*command);
  command->add_option("--last", options->last, "Only the newest N steps")->check(CLI::PositiveNumber);
  command->callback([&context, options] { show_steps(context, *options); });
}

}  // namespace laggard::client
