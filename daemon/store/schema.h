// The schema's versions, embedded from schema/*.sql, and the way from one to the next.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/store/database.h"

namespace laggard::store {

/// Marks a SQLite file as ours (PRAGMA application_id): "lagg" in ASCII.
inline constexpr std::int64_t kApplicationId = 0x6c61'6767;

/// The SQL of each version; entry i makes version i + 1 out of version i.
std::span<const std::string_view> migrations();

/// Throws Error unless this is an empty database, or one of ours that is no newer than `known`. Reads only.
void check_schema(Database& database, std::span<const std::string_view> known);

/// Brings the database to the newest of `known`, each version in a transaction of its own. check_schema()
/// must have passed.
void migrate(Database& database, std::span<const std::string_view> known);

}  // namespace laggard::store
