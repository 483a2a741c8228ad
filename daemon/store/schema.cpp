#include "daemon/store/schema.h"

#include <string>

namespace laggard::store {

void check_schema(Database& database, std::span<const std::string_view> known) {
  const std::int64_t version = database.integer("PRAGMA user_version");
  const std::int64_t application = database.integer("PRAGMA application_id");
  const bool empty = database.integer("SELECT count(*) FROM sqlite_schema") == 0;
  if (application != kApplicationId && !(empty && version == 0))
    throw Error(database.path() + ": this SQLite file belongs to another program; give another directory");
  if (version > static_cast<std::int64_t>(known.size()))
    throw Error(database.path() + ": its schema version " + std::to_string(version) +
                " is newer than this laggardd knows (" + std::to_string(known.size()) +
                "); start the newer laggardd, or give another directory");
}

void migrate(Database& database, std::span<const std::string_view> known) {
  for (auto version = static_cast<std::size_t>(database.integer("PRAGMA user_version"));
       version < known.size(); ++version) {
    Transaction transaction(database, Transaction::Kind::write);
    database.execute(std::string(known[version]));
    database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.execute("PRAGMA user_version = " + std::to_string(version + 1));
    transaction.commit();
  }
}

}  // namespace laggard::store
