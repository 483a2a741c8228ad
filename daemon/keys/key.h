// CURVE keys as text: the 40 characters of Z85 that libzmq reads and writes for 32 bytes.
#pragma once

#include <string>
#include <string_view>

namespace laggard::keys {

/// True of 40 characters of Z85 that stand for 32 bytes. Nothing tells a public key from a secret one.
bool is_key(std::string_view text);

/// The text of a key's 32 bytes; throws Error when there are not 32.
std::string key_of_bytes(std::string_view bytes);

struct KeyPair {
  std::string public_key, secret_key;
};

/// From the system's random numbers. Neither half begins with '-': a command line may hold a public key.
KeyPair make_key_pair();

/// The pair that a secret key belongs to. Throws Error, which does not repeat the text, when it is no key.
KeyPair pair_of(std::string secret_key);

/// What a connection to a collector that wants keys needs.
struct PeerKeys {
  KeyPair own;
  std::string collector;  ///< its public key
};

}  // namespace laggard::keys
