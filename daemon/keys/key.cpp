#include "daemon/keys/key.h"

#include <zmq.h>

#include <array>
#include <cstdint>

#include "daemon/base/error.h"

namespace laggard::keys {
namespace {

constexpr std::size_t kBytes = 32, kText = 40;
using Text = std::array<char, kText + 1>;

}  // namespace

bool is_key(std::string_view text) {
  if (text.size() != kText) return false;
  std::array<std::uint8_t, kBytes> bytes{};
  return zmq_z85_decode(bytes.data(), std::string(text).c_str()) != nullptr;
}

std::string key_of_bytes(std::string_view bytes) {
  if (bytes.size() != kBytes) throw Error("a key of " + std::to_string(bytes.size()) + " bytes");
  std::array<std::uint8_t, kBytes> raw{};
  bytes.copy(reinterpret_cast<char*>(raw.data()), raw.size());
  Text text{};
  zmq_z85_encode(text.data(), raw.data(), raw.size());
  return text.data();
}

KeyPair make_key_pair() {
  for (;;) {
    Text public_key{}, secret_key{};
    if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
      throw Error(std::string("cannot make a key: ") + zmq_strerror(zmq_errno()));
    if (public_key[0] != '-' && secret_key[0] != '-') return {public_key.data(), secret_key.data()};
  }
}

KeyPair pair_of(std::string secret_key) {
  Text public_key{};
  if (!is_key(secret_key) || zmq_curve_public(public_key.data(), secret_key.c_str()) != 0)
    throw Error("no secret key");
  return {public_key.data(), std::move(secret_key)};
}

}  // namespace laggard::keys
