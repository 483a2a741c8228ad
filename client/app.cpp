#include "client/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "client/commands/commands.h"
#include "client/render/text.h"

namespace laggard::client {
namespace {

void add_commands(CLI::App& app, Context& context) {
  add_runs(app, context);
  add_status(app, context);
  add_report(app, context);
  add_steps(app, context);
  add_step(app, context);
  add_ranks(app, context);
  add_stages(app, context);
  add_import(app, context);
  add_export(app, context);
  add_close(app, context);
}

void set_up(CLI::App& app, Context& context) {
  app.name("laggard");
  app.set_version_flag("--version", "laggard " LAGGARD_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--collector", context.address, "Where the collector answers")
      ->envname("LAGGARD_COLLECTOR")
      ->capture_default_str();
  app.add_option("-o,--output", context.format_name, "table, json, jsonl, csv or markdown")
      ->check(CLI::IsMember({"table", "json", "jsonl", "csv", "markdown"}))
      ->capture_default_str();
  app.footer(
      "RUN is the name of a run; NAME@2 means its second attempt, without a number the newest.\n"
      "Exit codes: 0 fine, 1 the runs of a report do not match, 2 usage, 3 no collector there,\n"
      "4 no such data, 5 anything else.\n\n"
      "Example: laggard status job --watch");
  add_commands(app, context);
}

ExitCode refused(const CLI::App& app, const CLI::ParseError& error, const Console& console) {
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
      app.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      return refused(app, error, console);
    }
    return context.exit_code;
  } catch (const OutputClosed&) {
    return ExitCode::fine;
  } catch (const Failure& failure) {
    return failed(failure.code(), failure.what(), console);
  } catch (const Error& error) {
    return failed(ExitCode::usage, error.what(), console);
  } catch (const std::exception& error) {
    return failed(ExitCode::failed, error.what(), console);
  }
}

}  // namespace laggard::client
