#include "client/commands/commands.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <fstream>
#include <sstream>

#include "client/http/url.h"
#include "client/views/views.h"
#include "daemon/base/secret_file.h"

namespace laggard::client {

Collector Context::collector() const {
  Endpoint endpoint = parse_endpoint(address);
  endpoint.ca_file = ca_file;
  try {
    // Only a file that the person names: a server could name any file of theirs.
    if (!token_file.empty()) endpoint.token = read_token_file(token_file);
  } catch (const Error& error) {
    throw Failure(ExitCode::failed, error.what());
  }
  return Collector(std::move(endpoint));
}

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
                      const char* example, const std::string& more) {
  CLI::App* command = app.add_subcommand(name, description);
  command->group(group);
  command->footer(more + (more.empty() ? "" : "\n\n") + "Example: " + example);
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

std::string nothing_to_show(const Collector& collector, const Json& run) {
  RunRef ref{text(at(run, "run")), std::nullopt};
  if (const auto attempt = integer(at(run, "attempt"))) ref.attempt = static_cast<std::uint32_t>(*attempt);
  return "run \"" + ref.name + "\", attempt " + text(at(run, "attempt")) +
         ", has nothing to show: " + report_window_text(run) + "; " + stored_steps(collector, ref);
}

namespace {

/// "3%", "3" and "2.5 %" as 3, 3 and 2.5. Throws Failure (usage), naming the option, for anything else.
double parse_percent(const std::string& option, const std::string& typed) {
  std::string_view text = typed;
  while (!text.empty() && (text.back() == '%' || text.back() == ' ')) text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc{} || end != text.data() + text.size() || !(percent >= 0 && percent <= 100))
    throw Failure(ExitCode::usage,
                  option + " takes a percentage from 0 to 100 such as 3%, not \"" + typed + "\"");
  return percent;
}

}  // namespace

void add_fail_on(CLI::App& command, std::optional<double>& percent, const std::string& what) {
  // As a function, since for an optional an empty text would pass for no option: a variable that is not set
  // in a pipeline must not switch its gate off.
  command
      .add_option_function<std::string>(
          "--fail-on", [&percent](const std::string& typed) { percent = parse_percent("--fail-on", typed); },
          what)
      ->option_text("PERCENT");
}

std::vector<std::string> empty_runs(const Collector& collector, const Json& runs) {
  std::vector<std::string> sentences;
  if (!runs.is_array()) return sentences;
  for (const Json& run : runs)
    if (integer(at(run, "steps")) == 0) sentences.push_back(nothing_to_show(collector, run));
  return sentences;
}

std::string ingest_address(const Collector& collector, const std::string& asked_at) {
  std::string address = text(at(collector.get("/api/v1/status"), "ingest"));
  for (const std::string_view every : {"tcp://0.0.0.0:", "tcp://[::]:"}) {
    if (!address.starts_with(every)) continue;
    Endpoint endpoint = parse_endpoint(asked_at);
    endpoint.port = address.substr(every.size());
    return "tcp://" + host_field(endpoint);
  }
  return address;
}

Json profile_json(const Profile& profile) {
  Json ratios = Json::array();
  for (const Ratio& ratio : profile.ratios) {
    ratios.push_back({{"name", ratio.name},
                      {"numerator", ratio.numerator},
                      {"denominator", ratio.denominator},
                      {"complement", ratio.complement}});
  }
  return {{"parents", profile.parents},
          {"kinds", profile.kinds},
          {"exclusive_names", profile.exclusive_names},
          {"stage_order", profile.stage_order},
          {"ratios", ratios},
          {"may_differ", profile.may_differ},
          {"match_counts", profile.match_counts}};
}

Profile read_profile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw Failure(ExitCode::failed, "cannot read the profile " + path);
  try {
    return parse_profile(text.str(), path);
  } catch (const Error& error) {
    throw Failure(ExitCode::usage, error.what());
  }
}

void no_step(const Collector& collector, const RunRef& run, const StepRange& range) {
  const std::string attempt = run.attempt ? ", attempt " + std::to_string(*run.attempt) + "," : "";
  throw Failure(ExitCode::no_such_data, "run \"" + run.name + "\"" + attempt + " has no step" + range.text() +
                                            ": " + stored_steps(collector, run));
}

Json report_request(const std::vector<std::string>& runs, const StepRange& range,
                    const std::string& profile) {
  Json body = {{"runs", runs}, {"from", nullptr}, {"to", nullptr}, {"profile", nullptr}};
  if (range.from) body["from"] = *range.from;
  if (range.to) body["to"] = *range.to;
  if (!profile.empty()) body["profile"] = profile_json(read_profile(profile));
  return body;
}

}  // namespace laggard::client
