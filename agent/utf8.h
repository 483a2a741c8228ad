// Names from outside that need not be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace laggard::agent {

bool is_utf8(std::string_view text);
/// The text with every byte that is no part of a UTF-8 character as \xNN.
std::string escape_to_utf8(std::string_view text);

}  // namespace laggard::agent
