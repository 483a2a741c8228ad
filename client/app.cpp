#include "client/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <sstream>

#include "client/commands/commands.h"
#include "client/render/text.h"

namespace laggard::client {
namespace {

void add_commands(CLI::App& app, Context& context) {
  add_runs(app, context);
  add_status(app, context);
  add_report(app, context);
  add_compare(app, context);
  add_steps(app, context);
  add_step(app, context);
  add_ranks(app, context);
  add_stages(app, context);
  add_verdict(app, context);
  add_import(app, context);
  add_export(app, context);
  add_close(app, context);
  add_delete(app, context);
  add_keys(app, context);
  add_run(app, context);
  add_doctor(app, context);
}

void set_up(CLI::App& app, Context& context) {
  app.name("laggard");
  app.set_version_flag("--version", "laggard " LAGGARD_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--collector", context.address, "Where the collector answers")
      ->envname("LAGGARD_COLLECTOR")
      ->capture_default_str();
  app.add_option("--token-file", context.token_file,
                 "The file with the collector's token, where it asks for one")
      ->envname("LAGGARD_TOKEN_FILE")
      ->option_text("FILE");
  app.add_option("--ca-file", context.ca_file,
                 "PEM file with the certificates to trust for https://, in place of the system's")
      ->envname("LAGGARD_CA_FILE")
      ->option_text("FILE");
  app.add_option("-o,--output", context.format_name, "table, json, jsonl, csv or markdown")
      ->check(CLI::IsMember({"table", "json", "jsonl", "csv", "markdown"}))
      ->capture_default_str();
  app.footer(
      "RUN is the name of a run; NAME@2 means its second attempt, without a number the newest.\n"
      "Exit codes: 0 fine, 1 the runs of a report do not match, a --fail-on is exceeded, or an import\n"
      "left something out, 2 usage, 3 no collector there or not ready, 4 no such data, 5 anything else,\n"
      "6 the runs of a comparison do not match.\n\n"
      "Example: laggard status job --watch");
  add_commands(app, context);
}

// How many letters differ: changed, missing or too many.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({diagonal + 1, row[j] + 1, changed});
    }
  }
  return row.back();
}

std::string no_command(const CLI::App& app) {
  const auto typed = app.remaining();
  if (!typed.empty() && typed.front().starts_with('-')) return "there is no option \"" + typed.front() + "\"";
  std::string all, alike;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string& name = command->get_name();
    all += (all.empty() ? "" : ", ") + name;
    if (typed.empty()) continue;
    if (name.starts_with(typed.front()) || distance(name, typed.front()) <= 2)
      alike += (alike.empty() ? "" : " or ") + name;
  }
  if (typed.empty()) return "which command? There are " + all;
  return "there is no command \"" + typed.front() + "\"; " +
         (alike.empty() ? "there are " + all : "did you mean " + alike + "?");
}

ExitCode refused(const CLI::App& app, const CLI::ParseError& error, const Console& console) {
  // CLI11 does not say which word it took for no command.
  const bool has_command = !app.get_subcommands().empty();
  if (!has_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    console.err("laggard: " + printable(no_command(app)) + "\nlaggard: laggard --help describes them.\n");
    return ExitCode::usage;
  }
  std::ostringstream out, err;
  const int code = app.exit(error, out, err);
  console.out(out.str());
  // CLI11 quotes what the person has typed.
  std::string text;
  std::istringstream lines(err.str());
  for (std::string line; std::getline(lines, line);) text += "laggard: " + printable(line) + '\n';
  console.err(text);
  return code == 0 ? ExitCode::fine : ExitCode::usage;
}

ExitCode failed(ExitCode code, const std::string& sentence, const Console& console) {
  console.err("laggard: " + printable(sentence) + '\n');
  return code;
}

}  // namespace

ExitCode run(std::vector<std::string> arguments, const Console& console) {
  CLI::App app("Shows which rank and stage holds a distributed training job back.");
  Context context(console);
  try {
    set_up(app, context);
    try {
      std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
      context.words_left = std::move(arguments);
      app.parse(context.words_left);
    } catch (const CLI::ParseError& error) {
      return refused(app, error, console);
    }
    return context.exit_code;
  } catch (const OutputClosed&) {
    return context.exit_code;
  } catch (const Failure& failure) {
    return failed(failure.code(), failure.what(), console);
  } catch (const std::exception& error) {
    return failed(ExitCode::failed, error.what(), console);
  }
}

}  // namespace laggard::client
