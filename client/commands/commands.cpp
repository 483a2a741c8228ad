#include "client/commands/commands.h"

#include <CLI/CLI.hpp>

#include "client/views/fields.h"

namespace laggard::client {

Format Context::format() const {
  if (format_name == "json") return Format::json;
  if (format_name == "jsonl") return Format::jsonl;
  if (format_name == "csv") return Format::csv;
  return format_name == "markdown" ? Format::markdown : Format::table;
}

OutputStyle Context::style() const {
  const Terminal terminal = console.terminal();
  return {
      .format = format(), .terminal = terminal.present, .color = terminal.color, .columns = terminal.columns};
}

CLI::App* add_command(CLI::App& app, const char* name, const char* description, const char* group,
                      const char* example, const char* more) {
  CLI::App* command = app.add_subcommand(name, description);
  command->group(group);
  command->footer(std::string(more) + (*more == '\0' ? "" : "\n\n") + "Example: " + example);
  return command;
}

void StepRange::add_to(CLI::App& command) {
  command.add_option("--from", from, "First step");
  command.add_option("--to", to, "Last step");
}

void StepRange::check() const {
  if (from && to && *from > *to)
    throw Failure(ExitCode::usage,
                  "--from " + std::to_string(*from) + " is behind --to " + std::to_string(*to));
}

std::string StepRange::text() const {
  return (from ? " from " + std::to_string(*from) : "") + (to ? " up to " + std::to_string(*to) : "");
}

std::string StepRange::query() const {
  std::string query;
  if (from) query = "from=" + std::to_string(*from);
  if (to) query += (query.empty() ? "to=" : "&to=") + std::to_string(*to);
  return query;
}

std::string stored_steps(const Collector& collector, const RunRef& run) {
  const auto one_step = [&](const std::string& which) {
    const Json answer = collector.get(run_target(run, "/steps", "limit=1" + which));
    const Json& steps = at(answer, "steps");
    return steps.is_array() && !steps.empty() ? integer(at(steps[0], "step")) : std::nullopt;
  };
  const auto first = one_step(""), last = one_step("&newest=1");
  if (!first || !last) return "no step is stored yet";
  return "stored are steps " + std::to_string(*first) + " to " + std::to_string(*last);
}

void no_step(const Collector& collector, const RunRef& run, const StepRange& range) {
  const std::string attempt = run.attempt ? ", attempt " + std::to_string(*run.attempt) + "," : "";
  throw Failure(ExitCode::no_such_data, "run \"" + run.name + "\"" + attempt + " has no step" + range.text() +
                                            ": " + stored_steps(collector, run));
}

}  // namespace laggard::client
