// Which file systems lie on other machines: there, memory is not shared and other machines' writes are not
// told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace laggard {

/// The type of the file system a path lies on, as statfs(2) numbers them; nothing, with errno set, when that
/// cannot be had.
std::optional<std::int64_t> file_system_of(const std::filesystem::path& path);

/// The name of a network file system by its type; "" for any other.
std::string_view network_file_system(std::int64_t type);

}  // namespace laggard
