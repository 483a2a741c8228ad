#include "daemon/base/secret_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/base/error.h"
#include "daemon/base/private_file.h"

namespace laggard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRandomBytes = 32;

bool is_token_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

std::string random_token() {
  std::array<unsigned char, kRandomBytes> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0)
    throw Error(std::string("the system gives no random bytes for a token: ") + std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

}  // namespace

std::string read_token_file(const fs::path& path) {
  constexpr const char* kWhiteSpace = " \t\r\n";
  // Somebody may have given the token itself.
  if (!path.has_parent_path() && !fs::exists(fs::symlink_status(path)))
    throw Error(
        "there is no file of the name given for the token's file, which is not repeated here: give a path");
  std::string token = read_private_file(path, limits::kMaxSecretFileBytes, "the token");
  token.erase(token.find_last_not_of(kWhiteSpace) + 1);
  token.erase(0, token.find_first_not_of(kWhiteSpace));
  const std::string refused = "the token in " + path.string() + " is refused: ";
  for (const char c : token)
    if (!is_token_character(c))
      throw Error(refused + "it may have letters, digits and -._~+/= only, on one line");
  if (token.size() < limits::kMinTokenBytes || token.size() > limits::kMaxTokenBytes)
    throw Error(refused + "it has " + std::to_string(token.size()) + " characters, and needs " +
                std::to_string(limits::kMinTokenBytes) + " to " + std::to_string(limits::kMaxTokenBytes) +
                "; openssl rand -hex 32 writes a good one");
  return token;
}

void make_token_file(const fs::path& path) {
  if (!fs::exists(fs::symlink_status(path))) replace_file(path, random_token() + "\n");
}

}  // namespace laggard
