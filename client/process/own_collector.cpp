#include "client/process/own_collector.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "client/failure.h"
#include "client/process/job.h"
#include "client/process/time_limit.h"

namespace laggard::client {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kReadyWithin{20};  // a large database is read first
constexpr std::chrono::seconds kEndedWithin{10};  // it writes what it has
constexpr std::chrono::seconds kHurried{3};       // the same, when this program is told to end
constexpr std::chrono::seconds kKilledWithin{1};
constexpr std::chrono::milliseconds kPoll{10};
constexpr std::string_view kReady = "laggardd ready:";
constexpr auto* kIngestPort = "17600";

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

fs::path program() {
  const fs::path beside = own_folder() / "laggardd";
  return fs::exists(beside) ? beside : fs::path("laggardd");
}

bool is_taken(const addrinfo& address) {
  const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int again = 1;  // as laggardd binds it
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
  const bool is_free = ::bind(socket, address.ai_addr, address.ai_addrlen) == 0;
  const int error = errno;
  ::close(socket);
  return !is_free && error == EADDRINUSE;
}

bool is_taken(const std::string& host, const std::string& port) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), nullptr, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next)
    if (is_taken(*address)) return true;
  return false;
}

std::string usual_ingest() {
  return "tcp://127.0.0.1:" + std::string(is_taken("127.0.0.1", kIngestPort) ? "0" : kIngestPort);
}

// Of a child; one that somebody else has waited for has ended too.
bool has_ended(pid_t pid, std::chrono::seconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  const auto in_a_hurry = std::chrono::steady_clock::now() + kHurried;
  while (::waitpid(pid, nullptr, WNOHANG) == 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now > until || (now > in_a_hurry && end_is_asked())) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

std::string last_words(const fs::path& log) {
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return last;
}

}  // namespace

bool OwnCollector::could_answer_at(const Endpoint& http) {
  return is_this_machine(http.host) && !http.tls && !is_taken(http.host, http.port);
}

OwnCollector::OwnCollector(fs::path data, const Endpoint& http, std::string ingest)
    : data_(std::move(data)), log_(data_ / "laggardd.log") {
  std::error_code failed;
  fs::create_directories(data_, failed);
  if (failed)
    throw Failure(ExitCode::failed, "the records cannot be kept: there can be no directory " +
                                        data_.string() + ", " + failed.message() +
                                        ". --data DIR names another one");
  if (ingest.empty()) ingest = usual_ingest();
  std::vector<std::string> words{program(),         "--data", data_,           "--ingest",
                                 std::move(ingest), "--http", host_field(http)};
  std::vector<std::string> environment = environment_with({});
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) throw Failure(ExitCode::failed, "no file descriptor is left");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int error = posix_spawnp(&pid_, words.front().c_str(), &files, &attributes, pointers_to(words).data(),
                                 pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  ::close(output[1]);
  if (error != 0) pid_ = 0;
  try {
    if (error != 0)
      throw Failure(ExitCode::unreachable, "no collector answers at " + http.text + ", and " + words.front() +
                                               " cannot be started with its log in " + log_.string() + ": " +
                                               std::strerror(error));
    await_ready(output[0]);
  } catch (...) {
    ::close(output[0]);
    give_up();
    throw;
  }
  ::close(output[0]);
}

void OwnCollector::await_ready(int output) {
  const auto until = std::chrono::steady_clock::now() + kReadyWithin;
  std::string said;
  while (said.find(kReady) == std::string::npos) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd item{output, POLLIN, 0};
    char buffer[512];
    const ssize_t got = left.count() > 0 && ::poll(&item, 1, static_cast<int>(left.count())) == 1
                            ? ::read(output, buffer, sizeof buffer)
                            : 0;
    if (got <= 0)
      throw Failure(ExitCode::unreachable, "the collector that was started is not ready; the last line of " +
                                               log_.string() + ": " + last_words(log_));
    said.append(buffer, static_cast<std::size_t>(got));
  }
}

pid_t OwnCollector::stop() {
  const pid_t pid = leave();
  if (pid == 0) return 0;
  ::kill(pid, SIGTERM);
  return has_ended(pid, kEndedWithin) ? 0 : pid;
}

// One that has never been ready has nothing to write, and a job waits behind it.
void OwnCollector::give_up() {
  const pid_t pid = leave();
  if (pid == 0) return;
  ::kill(pid, SIGKILL);
  has_ended(pid, kKilledWithin);
}

pid_t OwnCollector::leave() { return std::exchange(pid_, 0); }

fs::path own_library() {
  for (const char* folder : {"../lib", "../lib64", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu"}) {
    std::error_code ignored;
    fs::path library = fs::weakly_canonical(own_folder() / folder / "liblaggard.so.0", ignored);
    if (fs::exists(library, ignored)) return library;
  }
  return {};
}

}  // namespace laggard::client
