#include "daemon/keys/key_file.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "daemon/base/error.h"
#include "daemon/base/private_file.h"
#include "daemon/keys/limits.h"

namespace laggard::keys {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "secret";
constexpr const char* kPublic = "public";

void check_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (name.empty() || name.size() > limits::kMaxKeyNameBytes || name[0] == '.' || name[0] == '-' ||
      !std::all_of(name.begin(), name.end(), fits))
    throw Error("a key's name has 1 to " + std::to_string(limits::kMaxKeyNameBytes) +
                " letters, digits, '.', '_' or '-', and begins with a letter or digit");
}

struct KeyLine {
  std::string kind, key, name;
};

// The one line that is neither empty nor a comment.
KeyLine key_line(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  KeyLine found;
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    found = {};
    words >> found.kind >> found.key >> found.name;
    ++count;
  }
  if (count != 1 || (found.kind != kSecret && found.kind != kPublic) || !is_key(found.key))
    throw Error(path + " is no key file as \"laggard keys new\" makes them");
  return found;
}

}  // namespace

KeyFiles create_key_files(const fs::path& directory, const std::string& name) {
  check_name(name);
  const KeyPair pair = make_key_pair();
  KeyFiles files{directory / (name + ".secret"), directory / (name + ".pub"), pair.public_key};
  for (const fs::path& path : {files.secret_file, files.public_file})
    if (std::error_code ignored; fs::exists(fs::symlink_status(path, ignored)))
      throw Error(path.string() + " exists; a key is not overwritten: choose another name, or move it away");
  write_new_file(files.secret_file,
                 "# The secret key of " + name +
                     " for laggard. It stays on its machine, for its owner alone.\n" + kSecret + " " +
                     pair.secret_key + "\n",
                 0600);
  try {
    write_new_file(files.public_file,
                   "# The public key of " + name + " for laggard. Everybody may have it.\n" +
                       std::string(kPublic) + " " + pair.public_key + " " + name + "\n",
                   0644);
  } catch (...) {
    unlink(files.secret_file.c_str());
    throw;
  }
  return files;
}

KeyPair read_secret_file(const std::string& path) {
  if (is_key(path)) throw Error("a secret key is given by its file, never as text, which others can see");
  KeyLine line = key_line(read_private_file(path, limits::kMaxKeyFileBytes, "the secret key"), path);
  if (line.kind != kSecret) throw Error(path + " is a public key; what is wanted here is the secret one");
  return pair_of(std::move(line.key));
}

PublicKey read_public_key(const std::string& file_or_key) {
  // A path may look like a key.
  std::error_code ignored;
  if (is_key(file_or_key) && !fs::exists(file_or_key, ignored)) return {file_or_key, ""};
  KeyLine line = key_line(read_file(file_or_key, limits::kMaxKeyFileBytes).text, file_or_key);
  if (line.kind != kPublic)
    throw Error(file_or_key + " is a secret key; what is wanted here is the public one");
  return {std::move(line.key), std::move(line.name)};
}

std::optional<PeerKeys> read_peer_keys(const std::string& key, const std::string& collector_key) {
  if (key.empty() && collector_key.empty()) return std::nullopt;
  if (collector_key.empty())
    throw Error(
        "a key (--key, LAGGARD_KEY) without the collector's (--collector-key, LAGGARD_COLLECTOR_KEY): say "
        "whom to trust with the records");
  if (key.empty())
    throw Error(
        "a collector's key (--collector-key, LAGGARD_COLLECTOR_KEY) without an own one (--key, LAGGARD_KEY): "
        "a collector with a key wants one of its agents");
  return PeerKeys{read_secret_file(key), read_public_key(collector_key).key};
}

}  // namespace laggard::keys
