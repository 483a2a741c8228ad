#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>

#include "agent/agent.h"
#include "agent/launcher.h"
#include "client/commands/commands.h"
#include "client/render/json_text.h"
#include "client/render/number.h"
#include "client/render/text.h"
#include "client/views/views.h"
#include "daemon/keys/key_file.h"

namespace laggard::client {
namespace {

struct ImportOptions {
  std::string run;
  std::string profile;
  std::string key, collector_key;
  std::vector<std::string> files;
};

// The path from here where that is the shorter one.
std::string nearest_name(const std::string& path) {
  const std::string near = std::filesystem::path(path).lexically_proximate(std::filesystem::current_path());
  return near.size() < path.size() ? near : path;
}

// A row of what became of a file: all its lines, all that the collector made of them.
std::vector<Cell> row_of(const agent::FileReport& file) {
  const auto cell = [](std::uint64_t n) { return Cell(static_cast<std::int64_t>(n)); };
  const auto bad = [&](std::uint64_t n) {
    Cell out = cell(n);
    if (n > 0) out.tone = Tone::warn;
    return out;
  };
  agent::Deliveries sum;
  std::uint64_t undelivered = 0;
  for (const agent::RankReport& rank : file.ranks) {
    sum.stored += rank.deliveries.stored;
    sum.duplicate += rank.deliveries.duplicate;
    sum.conflict += rank.deliveries.conflict;
    sum.rejected += rank.deliveries.rejected;
    undelivered += rank.undelivered;
  }
  const agent::LineTotals lines = file.lines.totals();
  return {nearest_name(file.path), file.path,           cell(file.lines.lines()), cell(lines.accepted),
          bad(lines.rejected),     cell(lines.foreign), cell(file.lines.blank),   bad(lines.pending_tail),
          cell(sum.stored),        cell(sum.duplicate), bad(sum.conflict),        bad(sum.rejected),
          bad(undelivered)};
}

std::string plural_of(std::uint64_t n, std::string_view word) {
  return counted(static_cast<std::int64_t>(n), word);
}

// "rank0.jsonl:3: no object (the first of 4 such lines)"
void add_rejections(const agent::FileReport& file, std::vector<std::string>& sentences) {
  for (const auto& [reason, count] : file.lines.rejected) {
    std::string sentence = file.path;
    const auto first =
        std::ranges::find(file.lines.first_rejections, reason, &agent::LineCounts::Rejection::reason);
    if (first != file.lines.first_rejections.end()) sentence += ":" + std::to_string(first->line);
    sentence += ": " + reason;
    if (count > 1) sentence += " (the first of " + std::to_string(count) + " such lines)";
    sentences.push_back(std::move(sentence));
  }
}

void add_refusals(const agent::FileReport& file, std::vector<std::string>& sentences) {
  for (const agent::RankReport& rank : file.ranks) {
    const std::string who = file.path + ", rank " + std::to_string(rank.rank) + ": ";
    if (!rank.refusal.empty()) sentences.push_back(who + "refused: " + rank.refusal);
    if (rank.deliveries.conflict > 0)
      sentences.push_back(who + plural_of(rank.deliveries.conflict, "record") +
                          " with other values than those stored, which stay");
    if (rank.deliveries.rejected > 0)
      sentences.push_back(who + plural_of(rank.deliveries.rejected, "record") +
                          " beyond the collector's limits");
  }
}

// Why which records of the files are not in the collector, one sentence each.
std::vector<std::string> left_out_of(const agent::DeliveryReport& report) {
  std::vector<std::string> sentences;
  for (const agent::FileReport& file : report.files) {
    add_rejections(file, sentences);
    add_refusals(file, sentences);
  }
  return sentences;
}

// Most likely not what was meant.
std::vector<std::string> without_records(const agent::DeliveryReport& report) {
  std::vector<std::string> sentences;
  for (const agent::FileReport& file : report.files) {
    const std::uint64_t lines = file.lines.lines(), foreign = file.lines.totals().foreign;
    if (lines == 0)
      sentences.push_back(file.path + ": the file is empty");
    else if (2 * foreign > lines)
      sentences.push_back(file.path + ": " + std::to_string(foreign) + " of its " + plural_of(lines, "line") +
                          " are no records (docs/records.md says which types there are)");
  }
  return sentences;
}

View view_of(const agent::DeliveryReport& report, const std::vector<std::string>& left_out) {
  Table table{"",
              {{"file", "file", Align::left, Show::people},
               {"path", "path", Align::left, Show::programs},
               {"lines", "lines"},
               {"accepted", "accepted"},
               {"rejected_lines", "rejected"},
               {"foreign", "foreign"},
               {"blank", "blank", Align::right, Show::wide},
               {"pending_tail", "unfinished", Align::right, Show::wide},
               {"stored", "stored"},
               {"duplicate", "duplicate"},
               {"conflict", "conflict", Align::right, Show::wide},
               {"rejected_records", "refused", Align::right, Show::wide},
               {"undelivered", "undelivered"}},
              {}};
  View view;
  for (const agent::FileReport& file : report.files) table.rows.push_back(row_of(file));
  const std::vector<std::string> without = without_records(report);
  view.json = {{"files", json_rows(table)}, {"left_out", left_out}, {"without_records", without}};
  view.screen = {table, Notes{left_out}, Notes{without}};
  view.rows = std::move(table);
  return view;
}

// What is wrong with the delivery as a whole, if anything.
std::optional<Failure> trouble_of(const agent::DeliveryReport& report, const std::string& ingest) {
  if (!report.collector_reached && !report.no_connection.empty())
    return Failure(ExitCode::unreachable, report.no_connection);
  if (!report.collector_reached) {
    return Failure(ExitCode::unreachable,
                   "the collector takes no records at " + ingest + ": is that address reachable from here?");
  }
  std::uint64_t accepted = 0, unacknowledged = 0;
  for (const agent::FileReport& file : report.files) {
    accepted += file.lines.totals().accepted;
    // What was refused is never acknowledged, and sending it again changes nothing.
    for (const agent::RankReport& rank : file.ranks)
      if (rank.refusal.empty()) unacknowledged += rank.undelivered;
  }
  if (accepted == 0) return Failure(ExitCode::no_such_data, "none of the lines is a record");
  if (unacknowledged == 0) return std::nullopt;
  return Failure(
      ExitCode::unreachable,
      std::to_string(unacknowledged) + " records were not acknowledged; importing again stores each once");
}

// None while there is no run of that name.
std::set<std::int64_t> attempts_of(const Collector& collector, const std::string& run) {
  std::set<std::int64_t> attempts;
  try {
    const Json status = collector.get(run_target({run, std::nullopt}));
    for (const Json& attempt : at(status, "attempts")) attempts.insert(integer(attempt).value_or(0));
  } catch (const NoAnswer&) {  // of the files themselves all is known
  }
  return attempts;
}

// "job@2, job@3"
std::string names_of(const std::string& run, const std::vector<std::int64_t>& attempts) {
  std::string names;
  for (const std::int64_t attempt : attempts)
    names += (names.empty() ? "" : ", ") + run + "@" + std::to_string(attempt);
  return names;
}

void import_files(Context& context, const ImportOptions& options) {
  if (const auto why = agent::bad_run_name(options.run))
    throw Failure(ExitCode::usage, "--run " + options.run + " can be no run's: " + *why);
  const Collector collector = context.collector();
  agent::DeliveryOptions delivery;
  delivery.collector = ingest_address(collector, context.address);
  const std::set<std::int64_t> before = attempts_of(collector, options.run);
  delivery.run = options.run;
  delivery.files = options.files;
  delivery.once = true;
  try {
    delivery.keys = keys::read_peer_keys(options.key, options.collector_key);
  } catch (const Error& error) {
    throw Failure(ExitCode::usage, error.what());
  }
  if (!options.profile.empty()) delivery.stages = agent::stages_of(read_profile(options.profile));
  const bool progress = context.console.terminal().redraws;
  if (progress) {
    delivery.on_progress = [&context](const agent::DeliveryProgress& now) {
      context.console.err("\r" + fixed(static_cast<double>(now.bytes_read) / 1e6, 1) + " MB read, " +
                          std::to_string(now.items_committed) + " records stored\x1b[K");
    };
  }
  // The agent logs; the standard output is for the answer.
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("laggard", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_level(spdlog::level::warn);
  const agent::DeliveryReport report = agent::deliver_files(delivery);
  if (progress) context.console.err("\r\x1b[K");
  const auto left_out = left_out_of(report);
  std::vector<std::int64_t> added;
  std::ranges::set_difference(attempts_of(collector, options.run), before, std::back_inserter(added));
  const std::optional<Failure> trouble = trouble_of(report, delivery.collector);
  // Before anything is shown: whoever reads that may have gone, and the code is to be right all the same.
  if (!left_out.empty()) context.exit_code = ExitCode::condition;
  if (trouble.has_value()) context.exit_code = trouble->code();
  View view = view_of(report, left_out);
  view.json["new_attempts"] = added;
  if (!before.empty() && !added.empty())
    view.screen.emplace_back(
        Notes{{"run \"" + options.run + "\" was there already, and stays as it was: new is " +
               names_of(options.run, added)}});
  context.show(view);
  // These forms have a row a file and no place for sentences.
  if (context.format() == Format::csv || context.format() == Format::jsonl)
    for (const std::string& sentence : left_out)
      context.console.err("laggard: " + printable(sentence) + '\n');
  if (trouble.has_value()) throw *trouble;
}

}  // namespace

void add_import(CLI::App& app, Context& context) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = add_command(
      app, "import", "Files of the past into the collector, as an agent would send them", "Data in and out",
      "laggard import --run job rank*.jsonl",
      "Exit codes: 0 every record of the files is in the collector; 1 lines that could not be read or\n"
      "records that it did not take were left out, as listed; 3 not all was acknowledged; 4 none of\n"
      "the lines is a record.");
  command->add_option("--run", options->run, "The run they belong to")->required();
  command->add_option("--profile", options->profile, "TOML file that says how stages nest")
      ->check(CLI::ExistingFile);
  command->add_option("--key", options->key, "File of a secret key, for a collector that wants keys")
      ->envname("LAGGARD_KEY");
  command->add_option("--collector-key", options->collector_key, "The collector's public key, or its file")
      ->envname("LAGGARD_COLLECTOR_KEY");
  command->add_option("files", options->files, "JSONL files")->required()->check(CLI::ExistingFile);
  command->callback([&context, options] { import_files(context, *options); });
}

}  // namespace laggard::client
