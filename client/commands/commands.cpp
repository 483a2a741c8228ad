#include "client/commands/commands.h"

#include <CLI/CLI.hpp>

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
                      const char* example) {
  CLI::App* command = app.add_subcommand(name, description);
  command->group(group);
  command->footer(std::string("Example: ") + example);
  return command;
}

void StepRange::add_to(CLI::App& command) {
  command.add_option("--from", from, "First step");
  command.add_option("--to", to, "Last step");
}

std::string StepRange::query() const {
  std::string query;
  if (from) query = "from=" + std::to_string(*from);
  if (to) query += (query.empty() ? "to=" : "&to=") + std::to_string(*to);
  return query;
}

}  // namespace laggard::client
