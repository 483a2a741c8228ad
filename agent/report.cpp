#include "agent/report.h"

#include <nlohmann/json.hpp>
#include <sstream>

namespace laggard::agent {
namespace {

using nlohmann::ordered_json;

void write_reasons(std::ostream& out, const char* what, const std::map<std::string, std::uint64_t>& counts) {
  for (const auto& [reason, count] : counts) out << "  " << what << " " << count << ": " << reason << "\n";
}

void write_rank(std::ostream& out, const RankReport& rank) {
  const Deliveries& of = rank.deliveries;
  out << "  rank " << rank.rank << ": " << rank.updates << " updates, " << rank.configs << " configs, "
      << rank.ends << " ends; stored " << of.stored << ", duplicate " << of.duplicate << ", conflict "
      << of.conflict << ", late " << of.late << ", rejected by the collector " << of.rejected
      << ", undelivered " << rank.undelivered << "\n";
  if (!rank.refusal.empty()) out << "    refused by the collector: " << rank.refusal << "\n";
}

void write_file(std::ostream& out, const FileReport& file) {
  const LineTotals totals = file.lines.totals();
  out << file.path << ": " << file.lines.lines() << " lines";
  if (file.resumed_behind_line > 0) out << " behind line " << file.resumed_behind_line;
  out << ": " << totals.accepted << " accepted, " << totals.foreign << " foreign, " << totals.rejected
      << " rejected, " << totals.pending_tail << " pending tail, " << file.lines.blank << " blank\n";
  for (const RankReport& rank : file.ranks) write_rank(out, rank);
  write_reasons(out, "foreign", file.lines.foreign);
  write_reasons(out, "rejected", file.lines.rejected);
  for (const LineCounts::Rejection& rejection : file.lines.first_rejections)
    out << "    " << file.path << ":" << rejection.line << ": " << rejection.reason << "\n";
  if (file.unread_bytes > 0) out << "  not read: " << file.unread_bytes << " bytes\n";
  if (file.truncations > 0)
    out << "  truncated " << file.truncations << " times: lines written just before may be missing\n";
}

ordered_json rank_json(const RankReport& rank) {
  const Deliveries& of = rank.deliveries;
  ordered_json out{{"rank", rank.rank},
                   {"updates", rank.updates},
                   {"configs", rank.configs},
                   {"ends", rank.ends},
                   {"stored", of.stored},
                   {"duplicate", of.duplicate},
                   {"conflict", of.conflict},
                   {"late", of.late},
                   {"rejected_by_collector", of.rejected},
                   {"undelivered", rank.undelivered}};
  out["refusal"] = rank.refusal.empty() ? ordered_json() : ordered_json(rank.refusal);
  return out;
}

ordered_json file_json(const FileReport& file) {
  const LineCounts& lines = file.lines;
  ordered_json ranks = ordered_json::array(), rejections = ordered_json::array();
  for (const RankReport& rank : file.ranks) ranks.push_back(rank_json(rank));
  for (const LineCounts::Rejection& rejection : lines.first_rejections)
    rejections.push_back({{"line", rejection.line}, {"reason", rejection.reason}});
  return {{"path", file.path},
          {"lines", lines.lines()},
          {"resumed_behind_line", file.resumed_behind_line},
          {"updates", lines.updates},
          {"configs", lines.configs},
          {"ends", lines.ends},
          {"foreign", lines.foreign},
          {"rejected", lines.rejected},
          {"first_rejections", rejections},
          {"pending_tail", lines.pending_tail},
          {"blank", lines.blank},
          {"unread_bytes", file.unread_bytes},
          {"truncations", file.truncations},
          {"ranks", ranks}};
}

}  // namespace

std::string report_text(const DeliveryReport& report) {
  std::ostringstream out;
  for (const FileReport& file : report.files) write_file(out, file);
  out << "undelivered: " << report.undelivered()
      << (report.collector_reached ? "" : " (no collector answered)") << "\n";
  return out.str();
}

std::string report_json(const DeliveryReport& report) {
  ordered_json files = ordered_json::array();
  for (const FileReport& file : report.files) files.push_back(file_json(file));
  const ordered_json out{{"collector_reached", report.collector_reached},
                         {"undelivered", report.undelivered()},
                         {"files", files}};
  // A path may hold bytes that are no UTF-8.
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace laggard::agent
