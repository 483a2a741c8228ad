#include <csignal>

#include "client/app.h"

int main(int argc, char** argv) {
  // A pipe whose reader has gone is seen where it is written to.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return static_cast<int>(laggard::client::run(arguments, laggard::client::system_console()));
}
