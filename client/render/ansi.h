// Colours of a terminal, by meaning.
#pragma once

#include <string>
#include <string_view>

namespace laggard::client {

enum class Tone { plain, strong, dim, good, warn, bad };

/// The text in its colour; unchanged when `color` is false or the tone is plain.
std::string toned(std::string_view text, Tone tone, bool color);

}  // namespace laggard::client
