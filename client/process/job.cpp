#include "client/process/job.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace laggard::client {
namespace {

constexpr std::array kPassedOn{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr int kNotFound = 127, kNotStarted = 126, kBySignal = 128;  // as shells have them

sigset_t waited_for() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kPassedOn) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  return signals;
}

int code_of(int status) { return WIFSIGNALED(status) ? kBySignal + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

std::vector<std::string> environment_with(const Job::Variables& variables) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!variables.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : variables) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::filesystem::path own_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

Job::Job(const std::vector<std::string>& command, const Variables& variables) {
  std::vector<std::string> words = command, environment = environment_with(variables);
  // Blocked before it starts: its end and a signal just after its start are not missed.
  const sigset_t signals = waited_for();
  sigset_t before, all;
  sigprocmask(SIG_BLOCK, &signals, &before);
  sigfillset(&all);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &before);
  // The job is not to inherit that this program ignores SIGPIPE.
  sigset_t by_default;
  sigemptyset(&by_default);
  sigaddset(&by_default, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &by_default);
  failed_ = posix_spawnp(&pid_, words.front().c_str(), nullptr, &attributes, pointers_to(words).data(),
                         pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
}

int Job::wait() {
  if (failed_ != 0) return failed_ == ENOENT ? kNotFound : kNotStarted;
  const sigset_t signals = waited_for();
  for (;;) {
    siginfo_t info{};
    const int number = sigwaitinfo(&signals, &info);
    if (number < 0) continue;
    if (number != SIGCHLD) {
      // What the terminal sends comes to its whole foreground group, and so to the job too.
      if (info.si_code <= 0) kill(pid_, number);
      continue;
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) return code_of(status);
  }
}

}  // namespace laggard::client
