// What a training process says of itself when it begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/parsed_line.h"
#include "daemon/base/limits.h"
#include "daemon/keys/key.h"

struct laggard_options;

namespace laggard::agent {

struct ApiSettings {
  std::string collector = "tcp://127.0.0.1:17600";
  std::optional<keys::PeerKeys> keys;
  std::string run;
  Rank rank = 0;
  std::uint32_t world_size = 0;          ///< 0 when nobody said
  std::optional<std::uint32_t> attempt;  ///< when somebody said, or the launcher starts the job again
  std::optional<Rank> local_rank;        ///< among those of this node, when the launcher says it
  std::string launch;                    ///< which start of the job this is; "" when nobody says it
  std::string job;                       ///< the mark by which laggard run knows its job; "" without one
  std::int64_t started_unix_ms = 0;
  std::size_t queue_records = limits::kWindowRecords;
  std::size_t held_steps = 0;
  std::string cuda;   ///< the library of CUDA's runtime, "auto", or "" for none
  std::string spool;  ///< a directory, or "" for none
  std::uint32_t spool_mb = limits::kSpoolMb;
  std::string config;  ///< the text of a JSON object, or ""
  /// What was asked for and cannot be, and what is done instead: a sentence each.
  std::vector<std::string> remarks;
};

/// True when LAGGARD_DISABLED says so.
bool is_disabled();

/// From the options (null: none) and the environment. Throws Error with a sentence when it cannot be known
/// where to send what, or which rank this is; the rest goes on with what can be.
ApiSettings read_settings(const laggard_options* options);

/// The config of this rank, with the job's own settings in `text` ("" for none). Throws Error when the text
/// is no JSON object, or one that a config line could not be.
ParsedLine make_config(const ApiSettings& settings, std::string_view text);

}  // namespace laggard::agent
