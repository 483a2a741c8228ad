// The command line.
#pragma once

#include <string>
#include <vector>

#include "client/console.h"
#include "client/failure.h"

namespace laggard::client {

/// Runs `laggard` with these arguments (without the program's name). Never throws; the reason of a failure
/// has been written to the console.
ExitCode run(std::vector<std::string> arguments, const Console& console);

}  // namespace laggard::client
