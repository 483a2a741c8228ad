#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/render/number.h"
#include "client/render/text.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

// Twice as many runs are what one request of the collector takes.
constexpr std::int64_t kMaxPlan = 32;

struct CompareOptions {
  std::string base, newer;
  std::string profile;
  std::optional<double> fail_on;  // percent
  std::optional<std::int64_t> plan;
  StepRange range;
};

/// "a,b" as a list of names.
Json names_of(const std::string& list, const std::string& what) {
  Json names = Json::array();
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end == begin)
      throw Failure(ExitCode::usage, what + " \"" + list +
                                         "\" has an empty name: give runs with a comma between them, as in "
                                         "before1,before2");
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// What came of --fail-on: whether it is exceeded, and in words.
struct Judged {
  bool exceeded = false;
  bool possible = true;  // there is an interval
  bool decided = true;
  std::string sentence;
};

Judged judge(const Json& comparison, double percent) {
  const std::string limit = shortest(percent) + " %";
  if (!truth(at(at(comparison, "match"), "pass")))
    return {.decided = false, .sentence = "--fail-on " + limit + " was not applied: the runs do not match"};
  const Json& rows = at(comparison, "rows");
  const Json& wall = rows.is_array() && !rows.empty() ? rows[0] : Json();
  const auto base = number(at(wall, "base")), low = number(at(wall, "low")), high = number(at(wall, "high"));
  if (!base || !low || !high)
    return {.possible = false,
            .decided = false,
            .sentence = "--fail-on " + limit + " was not applied: there is no interval of the wall"};
  const double bound = *base * percent / 100;
  const std::string by = "slower by more than " + limit;
  if (*low > bound) return {.exceeded = true, .sentence = "New is " + by + " over the whole interval"};
  if (*high > bound)
    return {.decided = false, .sentence = "Undecided whether new is " + by + ": the interval holds both"};
  return {.sentence = "New is not " + by + " anywhere in the interval"};
}

void show_plan(Context& context, const CompareOptions& options) {
  if (!options.base.empty())
    throw Failure(ExitCode::usage,
                  "--plan tells how to make runs, so it takes none: laggard compare --plan 4");
  if (*options.plan < 1 || *options.plan > kMaxPlan)
    throw Failure(ExitCode::usage, "--plan " + std::to_string(*options.plan) + ": give 1 to " +
                                       std::to_string(kMaxPlan) + " runs a side");
  context.show(plan_view(static_cast<std::size_t>(*options.plan)));
}

Json body_of(const CompareOptions& options) {
  if (options.base.empty() || options.newer.empty())
    throw Failure(ExitCode::usage,
                  "which runs? Give those of before and those of after: laggard compare before1,before2 "
                  "after1,after2");
  options.range.check();
  Json body = {{"base", names_of(options.base, "BASE")}, {"new", names_of(options.newer, "NEW")}};
  if (options.range.from) body["from"] = *options.range.from;
  if (options.range.to) body["to"] = *options.range.to;
  if (!options.profile.empty()) body["profile"] = profile_json(read_profile(options.profile));
  return body;
}

void show_comparison(Context& context, const CompareOptions& options) {
  const Json body = body_of(options);
  const Collector collector = context.collector();
  const Json comparison = collector.post("/api/v1/compare", body);
  std::string empty;
  for (const char* side : {"base", "new"})
    for (const std::string& sentence : empty_runs(collector, at(comparison, side)))
      empty += (empty.empty() ? "" : "; ") + sentence;
  if (!empty.empty()) throw Failure(ExitCode::no_such_data, empty);

  const Judged judged = options.fail_on ? judge(comparison, *options.fail_on) : Judged{};
  context.show(compare_view(comparison, judged.sentence));
  if (!truth(at(at(comparison, "match"), "pass")))
    context.exit_code = ExitCode::mismatch;
  else if (judged.exceeded)
    context.exit_code = ExitCode::condition;
  else if (!judged.possible)
    context.exit_code = ExitCode::no_such_data;
  if (judged.exceeded || !judged.decided)
    context.console.err("laggard: " + printable(judged.sentence) + '\n');
}

}  // namespace

void add_compare(CLI::App& app, Context& context) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = add_command(
      app, "compare", "Whether a change made the job faster, and which stage did it", "After a job",
      "laggard compare before1,before2 after1,after2 --profile job.toml --fail-on 3% -o markdown",
      "The run is the unit of repetition: two runs a side and more give an interval that holds run-to-run\n"
      "variation. --plan 4 prints in which order to make them.\n"
      "Exit codes: 1 new is slower by more than --fail-on over the whole 95 % interval of the wall; 4 a run\n"
      "has no step in the window, or with --fail-on too few for an interval; 6 the runs did not do the same\n"
      "work, so that no figure is of the change alone (settings that the change is about belong in\n"
      "may_differ of the profile).");
  command->add_option("BASE", options->base, "The runs before the change, NAME or NAME@ATTEMPT, with commas");
  command->add_option("NEW", options->newer, "Those after it");
  command
      ->add_option("--profile", options->profile, "TOML file that says how stages nest and what must match")
      ->check(CLI::ExistingFile);
  add_fail_on(*command, options->fail_on, "Exit 1 when new is surely slower by more than this");
  command
      ->add_option("--plan", options->plan,
                   "Print a balanced order for so many runs a side; asks no collector")
      ->option_text("N");
  options->range.add_to(*command);
  command->callback([&context, options] {
    if (options->plan)
      show_plan(context, *options);
    else
      show_comparison(context, *options);
  });
}

}  // namespace laggard::client
