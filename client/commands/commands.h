// The commands, and what they share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/collector.h"
#include "client/console.h"
#include "client/failure.h"
#include "client/render/output.h"
#include "client/run_ref.h"
#include "client/views/fields.h"
#include "daemon/base/profile.h"

namespace CLI {
class App;
}

namespace laggard::client {

/// The options that every command takes, and what a command leaves behind.
struct Context {
  explicit Context(const Console& to) : console(to) {}

  static constexpr auto* kAddress = "http://127.0.0.1:17601";

  const Console& console;
  std::string address = kAddress;
  std::string token_file, ca_file;  // "" for none, and for the system's store
  std::string format_name = "table";
  std::vector<std::string> words_left;  ///< of the command line while it is read, the next one last
  ExitCode exit_code = ExitCode::fine;

  /// Throws Failure for an address that is none, or a token file that is refused.
  Collector collector() const;
  Format format() const;
  OutputStyle style() const;
  void show(const View& view) const { console.out(write_view(view, style())); }
};

/// A new command with its one-line description and an example; `group` is its heading in the help, `more`
/// what else stands there.
CLI::App* add_command(CLI::App& app, const char* name, const char* description, const char* group,
                      const char* example, const std::string& more = "");

/// First and last step, both inclusive, as the options --from and --to.
struct StepRange {
  std::optional<std::int64_t> from, to;

  void add_to(CLI::App& command);
  /// Throws Failure (usage) when the first one is behind the last one.
  void check() const;
  /// "from=3&to=9", "" without either.
  std::string query() const;
  /// " from 3 up to 9", "" without either.
  std::string text() const;
};

/// The option --fail-on PERCENT: "3%", "3" and "2.5 %" are 3, 3 and 2.5, anything else a Failure (usage).
void add_fail_on(CLI::App& command, std::optional<double>& percent, const std::string& what);

/// "stored are steps 1 to 20", for those who asked for others.
std::string stored_steps(const Collector& collector, const RunRef& run);
/// Why a run's figures in a report or in the answer of stages are of no step, and which steps there are.
std::string nothing_to_show(const Collector& collector, const nlohmann::ordered_json& run);
/// For each of the runs that has no step in its window, a sentence that says so.
std::vector<std::string> empty_runs(const Collector& collector, const nlohmann::ordered_json& runs);
/// Throws Failure (no_such_data): the run has no step in the range.
[[noreturn]] void no_step(const Collector& collector, const RunRef& run, const StepRange& range);

/// Where records go, as the collector says. One that listens at every address is where it was asked.
std::string ingest_address(const Collector& collector, const std::string& asked_at);

/// A profile from a file. Throws Failure: failed when it cannot be read, usage when it says what it must not.
Profile read_profile(const std::string& path);
/// The profile as requests carry it.
nlohmann::ordered_json profile_json(const Profile& profile);

/// What a command's help says when it changes what is stored.
inline constexpr const char* kNeedsToken =
    "It needs the collector's token: the file admin.token in laggardd's --data, or the one of its own\n"
    "--token-file.";

/// The body of a request for a report; `profile` is a file, "" for none. Throws what read_profile() throws.
Json report_request(const std::vector<std::string>& runs, const StepRange& range, const std::string& profile);

void add_runs(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_report(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_steps(CLI::App& app, Context& context);
void add_step(CLI::App& app, Context& context);
void add_ranks(CLI::App& app, Context& context);
void add_stages(CLI::App& app, Context& context);
void add_verdict(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_delete(CLI::App& app, Context& context);
void add_close(CLI::App& app, Context& context);
void add_keys(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);

}  // namespace laggard::client
