#include "client/process/job.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <system_error>

#include "client/process/time_limit.h"

namespace laggard::client {
namespace {

// A group that is not a terminal's foreground is not told by it of the size of its window either.
constexpr std::array kPassedOn{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH};
constexpr int kNotFound = 127, kNotStarted = 126, kBySignal = 128;  // as shells have them
constexpr int kUnknownEnd = 1;
constexpr timespec kTryAgain{1, 0};

sigset_t set_of(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) sigaddset(&signals, number);
  return signals;
}

sigset_t waited_for() {
  sigset_t signals = set_of({SIGCHLD, SIGCONT});
  for (const int number : kPassedOn) sigaddset(&signals, number);
  return signals;
}

int code_of(int status) { return WIFSIGNALED(status) ? kBySignal + WTERMSIG(status) : WEXITSTATUS(status); }

// Makes `to` the group that may read the terminal and that its keys reach, if that is `from` now. SIGTTOU
// must be blocked.
bool hand_terminal(pid_t from, pid_t to) {
  const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (terminal < 0) return false;
  const bool handed = ::tcgetpgrp(terminal) == from && ::tcsetpgrp(terminal, to) == 0;
  ::close(terminal);
  return handed;
}

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
  sigset_t signals = waited_for();
  sigaddset(&signals, SIGTTOU);
  sigprocmask(SIG_BLOCK, &signals, &mask_before_);
  // Whoever ignores it leaves no child behind to be waited for, and so might have the parent of this process.
  std::signal(SIGCHLD, SIG_DFL);
  // The job is not to inherit that this program ignores SIGPIPE.
  const sigset_t by_default = set_of({SIGPIPE, SIGCHLD});
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setsigmask(&attributes, &mask_before_);
  posix_spawnattr_setsigdefault(&attributes, &by_default);
  // What is sent to this process's group, by a batch system or a terminal, would otherwise reach the job by
  // itself and once more from here.
  posix_spawnattr_setpgroup(&attributes, 0);
  failed_ = posix_spawnp(&pid_, words.front().c_str(), nullptr, &attributes, pointers_to(words).data(),
                         pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
}

std::string Job::trouble() const { return failed_ == 0 ? "" : std::system_category().message(failed_); }

int Job::wait() {
  int code = failed_ == ENOENT ? kNotFound : kNotStarted;
  if (failed_ == 0) code = run_to_end();
  if (has_terminal_) hand_terminal(pid_, ::getpgrp());
  sigset_t mask = mask_before_;
  for (const int signal : kEnds) sigaddset(&mask, signal);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  return code;
}

int Job::run_to_end() {
  const sigset_t signals = waited_for();
  std::optional<int> code;
  while (!code) {
    const int number = sigwaitinfo(&signals, nullptr);
    if (number == SIGCHLD)
      code = look();
    else if (number == SIGCONT)
      resume();
    else if (number > 0)
      ::kill(-pid_, number);
  }
  return *code;
}

// How it has ended, if it has.
std::optional<int> Job::look() {
  int status = 0;
  const pid_t changed = ::waitpid(pid_, &status, WNOHANG | WUNTRACED);
  if (changed < 0) return kUnknownEnd;
  if (changed == 0) return std::nullopt;
  if (!WIFSTOPPED(status)) return code_of(status);
  stopped(WSTOPSIG(status));
  return std::nullopt;
}

void Job::stopped(int signal) {
  if (signal == SIGSTOP) return;  // of somebody who means the job alone, and will have it go on
  // Most jobs never read the terminal: they leave it to this process's group, so that Ctrl-C also reaches the
  // script or loop that this process was started from.
  if ((signal == SIGTTIN || signal == SIGTTOU) && hand_terminal(::getpgrp(), pid_))
    has_terminal_ = true;
  else
    stop_too();
  resume();
}

// With all of its group, as a terminal's Ctrl-Z would, so that the shell sees it; returns when it is to go
// on.
void Job::stop_too() {
  const sigset_t stop = set_of({SIGTSTP}), go_on = set_of({SIGCONT});
  ::kill(0, SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  // Nothing stops a group that no shell could continue: then the job tries again after a while.
  sigtimedwait(&go_on, nullptr, &kTryAgain);
}

void Job::resume() {
  if (has_terminal_) hand_terminal(::getpgrp(), pid_);
  ::kill(-pid_, SIGCONT);
}

}  // namespace laggard::client
