#include <dlfcn.h>
#include <spdlog/logger.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "agent/api/settings.h"
#include "agent/collector_link.h"
#include "agent/connection_log.h"
#include "agent/launcher.h"
#include "agent/spool.h"
#include "client/commands/commands.h"
#include "client/process/own_collector.h"
#include "client/render/json_text.h"
#include "client/render/number.h"
#include "daemon/keys/key_file.h"

namespace laggard::client {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectWithin = 3s;
constexpr double kClockFitsMs = 2000;  // of times since 1970, by which runs are put in order
constexpr auto* kIngest = "tcp://127.0.0.1:17600";

std::string variable(const std::string& name) { return agent::process_environment()(name); }

/// What was found, line by line, and what of it does not fit.
class Findings {
 public:
  void add(const std::string& what, const Cell& value, const std::string& from = "") {
    table_.rows.push_back({what, value, from.empty() ? Cell() : Cell(from)});
  }
  template <typename T>
  void add(const std::string& what, const std::optional<agent::Found<T>>& found,
           const std::string& otherwise) {
    if (!found) return add(what, otherwise);
    if constexpr (std::is_same_v<T, std::string>)
      add(what, found->value, found->variable);
    else
      add(what, Cell(static_cast<std::int64_t>(found->value)), found->variable);
  }
  void remark(const std::string& sentence) { remarks_.push_back(sentence); }
  // Of what is looked at in two ways, the same sentence may come twice.
  void problem(const std::string& sentence) {
    if (std::find(problems_.begin(), problems_.end(), sentence) == problems_.end())
      problems_.push_back(sentence);
  }
  bool has_problems() const { return !problems_.empty(); }

  View view() const {
    View view;
    view.rows = table_;
    view.screen = {table_};
    Facts facts;
    for (const std::string& remark : remarks_) facts.push_back({"note", remark});
    for (const std::string& problem : problems_) facts.push_back({"problem", problem, Tone::bad});
    if (problems_.empty()) facts.push_back({"fine", "everything that was looked at fits", Tone::good});
    view.screen.emplace_back(facts);
    view.json = {{"found", json_rows(table_)}, {"remarks", remarks_}, {"problems", problems_}};
    return view;
  }

 private:
  Table table_{
      "",
      {{"what", "what", Align::left}, {"value", "value", Align::left}, {"from", "from", Align::left}},
      {}};
  std::vector<std::string> remarks_, problems_;
};

void look_at_launch(Findings& out) {
  const agent::Launch launch = agent::read_launch(agent::process_environment());
  out.add("launcher", launch.launcher.empty() ? Cell("none") : Cell(launch.launcher));
  out.add("run", launch.run, "the script's name");
  const bool alone = !launch.rank && !launch.unclear && launch.wrong.empty() &&
                     (!launch.world_size || launch.world_size->value == 1);
  out.add("rank", launch.rank, alone ? "0, the only one" : "not known");
  out.add("world size", launch.world_size, alone ? "1" : "not known");
  out.add("local rank", launch.local_rank, "not known");
  if (launch.attempt || !launch.restarts || launch.restarts->value == 0)
    out.add("attempt", launch.attempt, "as the collector counts");
  else
    out.add("attempt", Cell(std::int64_t{launch.restarts->value} + 1), launch.restarts->variable);
  for (const std::string& remark : launch.remarks) out.remark(remark);
  for (const std::string& wrong : launch.wrong) out.problem(wrong);
  if (const std::string disabled = variable("LAGGARD_DISABLED"); !disabled.empty() && disabled != "0")
    out.problem("LAGGARD_DISABLED=" + disabled + ": training processes measure nothing");
}

// What a training process would begin with, and what would keep it from that.
void look_at_settings(Findings& out) {
  try {
    const agent::ApiSettings settings = agent::read_settings(nullptr);
    for (const std::string& remark : settings.remarks) out.problem(remark);
    if (settings.spool.empty()) return;
    out.add("spool", settings.spool, "LAGGARD_SPOOL");
    const agent::Spool made(settings.spool, std::uint64_t{settings.spool_mb} << 20);
  } catch (const Error& error) {
    out.problem(error.what());
  }
}

// What a training process would load, as it says itself.
void look_at_library(Findings& out) {
  const std::string named = variable("LAGGARD_LIBRARY");
  const std::filesystem::path own = own_library();
  const std::string path = !named.empty() ? named : own.empty() ? "liblaggard.so.0" : own.string();
  const std::string from = !named.empty() ? "LAGGARD_LIBRARY"
                           : own.empty()  ? "the system's search"
                                          : "beside this program; Python may take another (docs/python.md)";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Version = const char* (*)();
  const auto version =
      library == nullptr ? nullptr : reinterpret_cast<Version>(::dlsym(library, "laggard_version"));
  if (version == nullptr) {
    out.add("library", "none", from);
    return out.problem("the shared library cannot be loaded: " + path);
  }
  out.add("library", path, from);
  out.add("its version", version());
  if (std::string(version()) != LAGGARD_VERSION)
    out.problem("the library has version " + std::string(version()) + ", this program " + LAGGARD_VERSION);
}

// The HTTP side; the collector's ingest address, "" without an answer.
std::string look_at_collector(const Context& context, Findings& out) {
  const std::string from = variable("LAGGARD_COLLECTOR") == context.address ? "LAGGARD_COLLECTOR" : "";
  out.add("collector", context.address, from);
  try {
    const Collector collector = context.collector();
    const auto asked = std::chrono::system_clock::now();
    const Json status = collector.get("/api/v1/status");
    const auto answered = std::chrono::system_clock::now();
    out.add("its version", text_cell(at(status, "version")));
    if (text(at(status, "version")) != LAGGARD_VERSION)
      out.problem("the collector has version " + text(at(status, "version")) + ", this program " +
                  LAGGARD_VERSION);
    if (const auto theirs = number(at(status, "now_unix_ms"))) {
      const auto middle = (asked.time_since_epoch() + answered.time_since_epoch()) / 2;
      const double ours = std::chrono::duration<double, std::milli>(middle).count();
      out.add("its clock", fixed(*theirs - ours, 0) + " ms from this one");
      if (std::abs(*theirs - ours) > kClockFitsMs)
        out.problem(
            "the clocks differ: step times are not touched by that, but runs may be put in a wrong order");
    }
    return ingest_address(collector, context.address);
  } catch (const Failure& failure) {
    out.problem(failure.what());
    return "";
  }
}

// Connects as an agent does, keys and all, and says nothing.
void look_at_ingest(const Context& context, Findings& out, const std::string& told) {
  const std::string said = variable("LAGGARD_INGEST"), address = said.empty() ? kIngest : said;
  out.add("ingest", address, said.empty() ? "" : "LAGGARD_INGEST");
  try {
    const auto keys = keys::read_peer_keys(variable("LAGGARD_KEY"), variable("LAGGARD_COLLECTOR_KEY"));
    out.add("key", keys ? Cell(keys->own.public_key) : Cell("none"), keys ? "LAGGARD_KEY" : "");
    agent::CollectorLink link(address, keys);
    const auto until = std::chrono::steady_clock::now() + kConnectWithin;
    while (!link.is_connected() && link.refusal() == agent::CollectorLink::Refusal::none) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left <= 0ms) break;
      link.wait({}, left);
      while (link.next_event()) continue;
    }
    out.add("it takes records", link.is_connected() ? "yes" : "no");
    if (link.is_connected()) {
      if (!told.empty() && told != address)
        out.remark("the collector at " + context.address + " takes records at " + told +
                   ": is that the same place as " + address + "?");
      return;
    }
    spdlog::logger silent("");
    const std::string refusal = agent::ConnectionLog(address, keys, silent).sentence(link.refusal());
    const std::string elsewhere = told.empty() || told == address
                                      ? ""
                                      : "; the collector at " + context.address + " takes them at " + told;
    out.problem((refusal.empty() ? "no collector takes records at " + address : refusal) + elsewhere);
  } catch (const Error& error) {
    out.problem(error.what());
  }
}

void examine(Context& context) {
  Findings out;
  look_at_launch(out);
  look_at_settings(out);
  look_at_library(out);
  const std::string ingest = look_at_collector(context, out);
  look_at_ingest(context, out, ingest);
  if (out.has_problems()) context.exit_code = ingest.empty() ? ExitCode::unreachable : ExitCode::condition;
  context.show(out.view());
}

}  // namespace

void add_doctor(CLI::App& app, Context& context) {
  CLI::App* command = add_command(
      app, "doctor", "What a training process would find here: its rank, the library, the collector",
      "While a job runs", "srun laggard doctor",
      "Started as the job is, it shows what the job would see. Exit codes: 0 everything fits; 1 something\n"
      "does not, as listed; 3 the collector does not answer.");
  command->callback([&context] { examine(context); });
}

}  // namespace laggard::client
