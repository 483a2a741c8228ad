#include "daemon/app/ingest_security.h"

#include <filesystem>

#include "daemon/base/error.h"
#include "daemon/keys/key_file.h"

namespace laggard::app {

std::optional<ingest::Security> ingest_security(const Config& config) {
  namespace fs = std::filesystem;
  if (config.ingest_key.empty()) {
    if (config.allow_list.empty()) return std::nullopt;
    throw Error(
        "allow_list is set, but ingest_key is not: without a key of the collector every agent is taken");
  }
  ingest::Security security{.secret_key = keys::read_secret_file(config.ingest_key).secret_key,
                            .allow_list_file = config.allow_list};
  if (security.allow_list_file.empty())
    security.allow_list_file = (fs::path(config.data) / "keys" / "allowed.jsonl").string();
  std::error_code ignored;
  if (!fs::exists(security.allow_list_file, ignored))
    throw Error("there is no allow-list " + security.allow_list_file +
                ", and no agent is taken without: make one with \"laggard keys allow FILE.pub --allow-list " +
                security.allow_list_file + "\"");
  return security;
}

}  // namespace laggard::app
