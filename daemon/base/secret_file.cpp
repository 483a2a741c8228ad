#include "daemon/base/secret_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "daemon/base/error.h"

namespace laggard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRandomBytes = 32;

/// Closes a file descriptor.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

[[noreturn]] void fail(const std::string& doing, const fs::path& file) {
  throw Error("cannot " + doing + " " + file.string() + ": " + std::strerror(errno));
}

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

std::string read_secret_file(const fs::path& path, std::string_view what) {
  // A FIFO must not be waited for.
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info {};
  if (file.number() < 0 || fstat(file.number(), &info) != 0) fail("read " + std::string(what) + " in", path);
  const std::string name = std::string(what) + " in " + path.string();
  if (!S_ISREG(info.st_mode)) throw Error(name + " is refused: that is no plain file");
  if ((info.st_mode & 077) != 0)
    throw Error(name + " is refused: others may read or write that file; chmod 600 " + path.string() +
                " keeps it to its owner (and a secret that others have seen should be replaced)");
  std::string content(limits::kMaxSecretFileBytes + 1, '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t n = read(file.number(), content.data() + size, content.size() - size);
    if (n < 0) fail("read " + std::string(what) + " in", path);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  if (size > limits::kMaxSecretFileBytes)
    throw Error(name + " is refused: it is larger than " + std::to_string(limits::kMaxSecretFileBytes) +
                " bytes");
  content.resize(size);
  return content;
}

std::string read_token_file(const fs::path& path) {
  constexpr const char* kWhiteSpace = " \t\r\n";
  std::string token = read_secret_file(path, "the token");
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
  if (access(path.c_str(), F_OK) == 0) return;
  // Under another name first: a start that is cut short leaves no half of a token behind.
  const fs::path fresh = path.string() + ".new";
  if (unlink(fresh.c_str()) != 0 && errno != ENOENT) fail("replace", fresh);
  const File file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string line = random_token() + "\n";
  if (file.number() < 0 ||
      write(file.number(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      fsync(file.number()) != 0 || rename(fresh.c_str(), path.c_str()) != 0)
    fail("write", fresh);
}

}  // namespace laggard
