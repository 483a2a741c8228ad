// What an operator can say to laggardd, and where.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/core/options.h"

namespace laggard::app {

/// How long what is stored is kept; 0: for ever, without a limit.
struct Retention {
  std::int64_t records_days = 30;
  std::int64_t summaries_days = 365;
  std::int64_t max_database_mb = 20'480;
};

struct Config {
  std::string data;  ///< the data directory; has no default
  std::string ingest = "tcp://127.0.0.1:17600";
  std::string http = "127.0.0.1:17601";
  std::string log_level = "info";
  std::string ingest_key;       ///< file of the collector's secret key; "": agents need no key
  std::string allow_list;       ///< file of the keys that agents may have; "": keys/allowed.jsonl in `data`
  std::string http_token_file;  ///< "" for admin.token in the data directory
  std::string http_tls_cert, http_tls_key;  ///< both or none
  bool allow_remote = false;  ///< listen beyond this machine, where anybody may then send and ask
  core::Options alignment;
  Retention retention;
};

/// What came of the command line: a configuration, or a reason to leave.
struct ParsedConfig {
  std::optional<Config> config;
  int exit_code = 0;    ///< 0 after --help or --version, 2 for a usage error
  std::string message;  ///< to print: help on stdout, an error on stderr
};

/// The value of an environment variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Applies the text of a configuration file; `where` names it in errors. Throws Error for what is no TOML, a
/// key that is not known, or a value that makes no sense.
void apply_toml(std::string_view text, const std::string& where, Config& config);

/// A flag wins over the environment (LAGGARD_DATA ...), that over the file of --config, that over the
/// default. A key that is not known, or a value that makes no sense, is an error with the place it stands.
ParsedConfig parse_config(int argc, const char* const* argv, const Environment& environment);

}  // namespace laggard::app
