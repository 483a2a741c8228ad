// A key pair on disk: NAME.secret for its owner, NAME.pub for everybody else.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "daemon/keys/key.h"

namespace laggard::keys {

struct KeyFiles {
  std::filesystem::path secret_file, public_file;
  std::string public_key;
};

/// Makes a pair and its two files (0600 and 0644) in a directory. Throws Error for a name that is none, and
/// when one of the files is there: a key is never overwritten.
KeyFiles create_key_files(const std::filesystem::path& directory, const std::string& name);

/// The pair of a secret file. Throws Error when the file cannot be read, is readable by others than its
/// owner, or holds no secret key; the sentence never holds what the file holds, nor `path` if that is itself
/// a key.
KeyPair read_secret_file(const std::string& path);

struct PublicKey {
  std::string key;
  std::string name;  ///< as the file says it; "" for a key given as text
};

/// A public key from its file, or given as its 40 characters. Throws Error, which holds neither.
PublicKey read_public_key(const std::string& file_or_key);

/// What a sender's options --key (a secret file) and --collector-key (a public key) say; nothing when both
/// are empty. Throws Error when one of them is.
std::optional<PeerKeys> read_peer_keys(const std::string& key, const std::string& collector_key);

}  // namespace laggard::keys
