// The colour of a run's state.
#pragma once

#include <string>

#include "client/render/ansi.h"

namespace laggard::client {

Tone run_tone(const std::string& state);

}  // namespace laggard::client
