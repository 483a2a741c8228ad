#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "agent/agent.h"
#include "client/commands/commands.h"
#include "client/render/json_text.h"
#include "client/render/number.h"
#include "client/views/views.h"
#include "daemon/base/profile.h"

namespace laggard::client {
namespace {

struct ImportOptions {
  std::string run;
  std::string profile;
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

View view_of(const agent::DeliveryReport& report) {
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
  Notes notes;
  View view;
  for (const agent::FileReport& file : report.files) {
    table.rows.push_back(row_of(file));
    for (const auto& rejection : file.lines.first_rejections) {
      notes.lines.push_back(file.path + ":" + std::to_string(rejection.line) + ": " + rejection.reason);
    }
    for (const agent::RankReport& rank : file.ranks) {
      if (!rank.refusal.empty()) {
        notes.lines.push_back(file.path + ", rank " + std::to_string(rank.rank) +
                              ": refused: " + rank.refusal);
      }
    }
  }
  view.json = {{"files", json_rows(table)}};
  view.screen = {table, notes};
  view.rows = std::move(table);
  return view;
}

// What is wrong with the delivery as a whole, if anything.
void check(const agent::DeliveryReport& report, const std::string& ingest) {
  if (!report.collector_reached) {
    throw Failure(ExitCode::unreachable,
                  "the collector takes no records at " + ingest + ": is that address reachable from here?");
  }
  for (const agent::FileReport& file : report.files) {
    for (const agent::RankReport& rank : file.ranks) {
      if (!rank.refusal.empty())
        throw Failure(ExitCode::failed, "the collector has refused records (see above)");
    }
  }
  if (report.undelivered() > 0) {
    throw Failure(ExitCode::unreachable,
                  std::to_string(report.undelivered()) +
                      " records were not acknowledged; importing again stores each once");
  }
}

void import_files(const Context& context, const ImportOptions& options) {
  const Collector collector = context.collector();
  agent::DeliveryOptions delivery;
  delivery.collector = text(at(collector.get("/api/v1/status"), "ingest"));
  delivery.run = options.run;
  delivery.files = options.files;
  delivery.once = true;
  if (!options.profile.empty()) delivery.stages = agent::stages_of(load_profile(options.profile));
  const bool progress = context.console.terminal().present;
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
  context.show(view_of(report));
  check(report, delivery.collector);
}

}  // namespace

void add_import(CLI::App& app, Context& context) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command =
      add_command(app, "import", "Files of the past into the collector, as an agent would send them",
                  "Data in and out", "laggard import --run job rank*.jsonl");
  command->add_option("--run", options->run, "The run they belong to")->required();
  command->add_option("--profile", options->profile, "TOML file that says how stages nest")
      ->check(CLI::ExistingFile);
  command->add_option("files", options->files, "JSONL files")->required()->check(CLI::ExistingFile);
  command->callback([&context, options] { import_files(context, *options); });
}

}  // namespace laggard::client
