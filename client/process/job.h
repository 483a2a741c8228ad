// A program that this one stands in front of.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace laggard::client {

class Job {
 public:
  using Variables = std::map<std::string, std::string>;

  /// Starts it, as a shell would: found in PATH, with this program's environment but for `variables`. From
  /// here on signals to this process wait for wait().
  Job(const std::vector<std::string>& command, const Variables& variables);

  /// Passes signals on until it ends. Its exit code, or 128 and the number of the signal that ended it; 127
  /// when there was no such program and 126 when it could not be started.
  int wait();

 private:
  pid_t pid_ = 0;
  int failed_ = 0;  // the errno of its start
};

/// The environment of this process with these set, as exec takes it.
std::vector<std::string> environment_with(const Job::Variables& variables);
std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// The folder of this program.
std::filesystem::path own_folder();

}  // namespace laggard::client
