#include "daemon/app/config.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

// CLI11 and toml++ are headers with everything in them; this is the one file that reads them here.
#include <toml++/toml.h>
#include <CLI/CLI.hpp>

#include "daemon/base/error.h"

namespace laggard::app {
namespace {

template <typename Number>
std::optional<Number> number_in(const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least)) return std::nullopt;
  return value;
}

/// One setting under its one name: --overdue-after-ms, LAGGARD_OVERDUE_AFTER_MS, overdue_after_ms in a file.
struct Setting {
  std::string key, help;
  std::function<bool(Config&, const std::string&)> set;  // false for a value that makes no sense
  std::string wants;

  std::string flag() const {
    std::string flag = key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    return "--" + flag;
  }
  std::string variable() const {
    std::string name = "LAGGARD_" + key;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    return name;
  }
};

Setting text_setting(std::string key, std::string help, std::string Config::*field) {
  return {std::move(key), std::move(help),
          [field](Config& config, const std::string& text) {
            config.*field = text;
            return !text.empty();
          },
          "a text that is not empty"};
}

Setting ms_setting(std::string key, std::string help, std::int64_t core::Options::*field) {
  return {std::move(key), std::move(help),
          [field](Config& config, const std::string& text) {
            const auto value = number_in<std::int64_t>(text, 1);
            if (value.has_value()) config.alignment.*field = *value;
            return value.has_value();
          },
          "a number of milliseconds, 1 or more"};
}

Setting keep_setting(std::string key, std::string help, std::int64_t Retention::*field) {
  constexpr std::int64_t kMost = 1'000'000'000;  // no overflow when it becomes milliseconds or bytes
  return {std::move(key), std::move(help),
          [field](Config& config, const std::string& text) {
            const auto value = number_in<std::int64_t>(text, 0);
            if (value.has_value()) config.retention.*field = *value;
            return value.has_value() && *value <= kMost;
          },
          "a whole number, 0 to 1000000000"};
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> kSettings{
      text_setting("data", "Directory of the database; made when it is missing. On a local disk",
                   &Config::data),
      text_setting("ingest",
                   "Where agents connect to. Default tcp://127.0.0.1:17600; port 0 takes a free one",
                   &Config::ingest),
      text_setting("http", "Where the CLI, curl and Prometheus ask. Default 127.0.0.1:17601", &Config::http),
      text_setting("ingest_key",
                   "File of the collector's secret key (laggard keys new): agents then need a key that is on "
                   "the allow-list, and what they send is encrypted. Default: none, agents need no key",
                   &Config::ingest_key),
      text_setting("allow_list",
                   "The keys that agents may have (laggard keys allow). Default keys/allowed.jsonl in --data",
                   &Config::allow_list),
      text_setting(
          "http_token_file",
          "File with the token that HTTP requests need: all from other machines, and those that change "
          "something. Default admin.token in the data directory, made at the first start",
          &Config::http_token_file),
      text_setting("http_tls_cert", "PEM file with the certificate for HTTPS; needs --http-tls-key too",
                   &Config::http_tls_cert),
      text_setting("http_tls_key", "PEM file with its private key, which only its owner may read",
                   &Config::http_tls_key),
      {"allow_remote",
       "true: take an --ingest address beyond this machine, without encryption or passwords, or an --http "
       "address without TLS. Default false",
       [](Config& config, const std::string& text) {
         config.allow_remote = text == "true";
         return text == "true" || text == "false";
       },
       "true or false"},
      {"log_level", "trace, debug, info, warn, error or off. Default info",
       [](Config& config, const std::string& text) {
         const std::vector<std::string> levels{"trace", "debug", "info", "warn", "error", "off"};
         config.log_level = text;
         return std::find(levels.begin(), levels.end(), text) != levels.end();
       },
       "trace, debug, info, warn, error or off"},
      ms_setting("overdue_after_ms", "A step that lacks a rank is overdue after this. Default 10000",
                 &core::Options::overdue_after_ms),
      {"overdue_factor", "... or after so many median steps, whichever is longer. Default 3",
       [](Config& config, const std::string& text) {
         const auto value = number_in<double>(text, 0);
         if (value.has_value()) config.alignment.overdue_factor = *value;
         return value.has_value();
       },
       "a number, 0 or more"},
      ms_setting("stalled_after_ms", "A run without a record for so long is stalled. Default 60000",
                 &core::Options::stalled_after_ms),
      ms_setting("lost_after_ms", "A run without a record for so long is lost. Default 1800000",
                 &core::Options::lost_after_ms),
      ms_setting("source_timeout_ms", "An agent not heard for so long is gone. Default 10000",
                 &core::Options::source_timeout_ms),
      keep_setting("keep_records_days",
                   "Days for which a step keeps the records of its ranks. Default 30; 0: for ever",
                   &Retention::records_days),
      keep_setting(
          "keep_summaries_days",
          "Days for which all else is kept, and a run after its last record. Default 365; 0: for ever",
          &Retention::summaries_days),
      keep_setting("max_database_mb",
                   "MiB of the database in use from which the oldest goes first, records before summaries. "
                   "Default 20480; 0: no limit",
                   &Retention::max_database_mb)};
  return kSettings;
}

void apply(const Setting& setting, Config& config, const std::string& text, const std::string& where) {
  if (!setting.set(config, text))
    throw Error(where + ": " + setting.key + " is \"" + text + "\", but wants " + setting.wants);
}

std::string text_of(const toml::node& node) {
  if (const auto text = node.value<std::string>(); node.is_string()) return *text;
  std::ostringstream out;
  out.imbue(std::locale::classic());
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  // A directory can be opened, and fails at the first byte.
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad())
    throw Error("cannot read " + path + ": " + std::generic_category().message(errno));
  return text.str();
}

bool is_loopback(std::string address) {
  if (address.starts_with("ipc://")) return true;
  if (address.starts_with("tcp://")) address.erase(0, 6);
  const std::string host = address.substr(0, address.rfind(':'));
  // A name may begin with "127." too, and mean any machine.
  const bool digits = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || (digits && host.starts_with("127."));
}

/// "host:port", where a colon inside the host needs brackets.
bool is_host_and_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = text.substr(0, colon);
  if (host.find(':') != std::string::npos && !(host.starts_with('[') && host.ends_with(']'))) return false;
  const auto port = number_in<int>(text.substr(colon + 1), 0);
  return port.has_value() && *port <= 65535;
}

void check_forms(const Config& config) {
  if (!config.ingest.starts_with("ipc://") &&
      !(config.ingest.starts_with("tcp://") && is_host_and_port(config.ingest.substr(6))))
    throw Error("ingest is \"" + config.ingest +
                "\", which is no address; one is like tcp://127.0.0.1:17600");
  if (!is_host_and_port(config.http))
    throw Error("http is \"" + config.http + "\", which is no address; one is like 127.0.0.1:17601");
}

void check_addresses(const Config& config) {
  check_forms(config);
  if (!config.allow_remote && !is_loopback(config.ingest) && config.ingest_key.empty())
    throw Error(config.ingest +
                " can be reached from other machines, and nothing there is encrypted or asks for a "
                "password: use 127.0.0.1 and a tunnel, have agents need a key (--ingest-key), or say "
                "--allow-remote true on a network you trust");
}

/// Beyond loopback a token is asked for; without TLS everybody on the way can read it.
void check_http(const Config& config) {
  const bool tls = !config.http_tls_cert.empty();
  if (tls == config.http_tls_key.empty())
    throw Error("HTTPS needs a certificate and its key: give http_tls_cert and http_tls_key, or neither");
  if (!tls && !config.allow_remote && !is_loopback(config.http))
    throw Error(
        config.http +
        " can be reached from other machines, and the token that they need would travel unencrypted: give "
        "--http-tls-cert and --http-tls-key, use 127.0.0.1 and a tunnel, or say --allow-remote true on a "
        "network you trust");
}

constexpr const char* kFooter = R"(
Each setting can also stand in the environment (LAGGARD_DATA, LAGGARD_INGEST, ...) or in the file of --config
(data = "...", ingest = "...", overdue_after_ms = 10000). A flag wins over the environment, that over the
file. When it is ready, one line with the real addresses is printed.

Example:
  laggardd --data /var/tmp/laggard
)";

}  // namespace

void apply_toml(std::string_view text, const std::string& where, Config& config) {
  toml::table table;
  try {
    table = toml::parse(text, where);
  } catch (const toml::parse_error& error) {
    throw Error(where + ":" + std::to_string(error.source().begin.line) + ": " +
                std::string(error.description()));
  }
  for (const auto& [key, node] : table) {
    const std::string line = where + ":" + std::to_string(node.source().begin.line);
    const std::string_view name = key.str();
    const auto known = std::find_if(settings().begin(), settings().end(),
                                    [&](const Setting& setting) { return setting.key == name; });
    if (known == settings().end()) {
      std::string keys;
      for (const Setting& setting : settings()) keys += (keys.empty() ? "" : ", ") + setting.key;
      throw Error(line + ": there is no setting \"" + std::string(name) + "\"; there are " + keys);
    }
    if (!node.is_value())
      throw Error(line + ": " + known->key + " is a list or a table, but wants " + known->wants);
    apply(*known, config, text_of(node), line);
  }
}

ParsedConfig parse_config(int argc, const char* const* argv, const Environment& environment) {
  CLI::App cli(
      "laggardd: the collector of laggard. Takes step records from agents, aligns the ranks of each\n"
      "run by step, stores them, and answers the CLI, curl and Prometheus.",
      "laggardd");
  cli.footer(kFooter);
  cli.set_version_flag("--version", "laggardd " LAGGARD_VERSION);
  std::string file;
  cli.add_option("--config", file, "A TOML file with any of these settings")->option_text("FILE");
  std::map<std::string, std::string> flags;
  for (const Setting& setting : settings())
    cli.add_option(setting.flag(), flags[setting.key], setting.help)->option_text("VALUE");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool fine = cli.exit(error, out, err) == 0;
    return {.exit_code = fine ? 0 : 2, .message = fine ? out.str() : "laggardd: " + err.str()};
  }
  try {
    Config config;
    if (const auto variable = environment("LAGGARD_CONFIG"); file.empty() && variable.has_value())
      file = *variable;
    if (!file.empty()) apply_toml(text_in(file), file, config);
    for (const Setting& setting : settings()) {
      if (cli.count(setting.flag()) > 0)
        apply(setting, config, flags[setting.key], setting.flag());
      else if (const auto variable = environment(setting.variable()))
        apply(setting, config, *variable, setting.variable());
    }
    if (config.data.empty())
      throw Error("no data directory: say --data DIR (or LAGGARD_DATA, or data in the file of --config)");
    check_addresses(config);
    check_http(config);
    return {.config = std::move(config)};
  } catch (const Error& error) {
    return {.exit_code = 2, .message = std::string("laggardd: ") + error.what() + "\n"};
  }
}

}  // namespace laggard::app
