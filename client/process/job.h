// A program that this one stands in front of.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace laggard::client {

class Job {
 public:
  using Variables = std::map<std::string, std::string>;

  /// Starts it, as a shell would: found in PATH, with this program's environment but for `variables`, in a
  /// process group of its own. From here on signals to this process wait for wait().
  Job(const std::vector<std::string>& command, const Variables& variables);

  /// Passes signals on until it ends, each once to the job's group; stops when the job is stopped from a
  /// terminal, and goes on with it. Its exit code, or 128 and the number of the signal that ended it; 127
  /// when there was no such program, 126 when it could not be started, and 1 when somebody else has been told
  /// how it ended. From then on signals that would end this process
  /// wait, for end_is_asked(): its exit code is the job's.
  int wait();
  /// Why it could not be started; "" when it could.
  std::string trouble() const;

 private:
  std::optional<int> look();
  void stopped(int signal);
  void stop_too();
  void resume();
  int run_to_end();

  pid_t pid_ = 0;
  int failed_ = 0;  // the errno of its start
  bool has_terminal_ = false;
  sigset_t mask_before_{};
};

/// The environment of this process with these set, as exec takes it.
std::vector<std::string> environment_with(const Job::Variables& variables);
std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// The folder of this program.
std::filesystem::path own_folder();

}  // namespace laggard::client
