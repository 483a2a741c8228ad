// The token of the HTTP side, in its file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace laggard::limits {

inline constexpr std::size_t kMinTokenBytes = 16;             ///< a shorter one could be guessed
inline constexpr std::size_t kMaxTokenBytes = 1024;           ///< fits a header field
inline constexpr std::size_t kMaxSecretFileBytes = 64 << 10;  ///< a private key with its comments

}  // namespace laggard::limits

namespace laggard {

/// The token that a file holds, without the white space around it. Throws Error as read_private_file()
/// does, and when it is shorter than limits::kMinTokenBytes, longer than limits::kMaxTokenBytes, or has other
/// characters than an HTTP field may have there (RFC 6750): so a file that is something else, such as a
/// private key, is never sent for a token.
std::string read_token_file(const std::filesystem::path& file);

/// Makes a file with a random token, readable by its owner alone, unless it is there. The folder must be its
/// owner's alone and locked. Throws Error.
void make_token_file(const std::filesystem::path& file);

}  // namespace laggard
