// Which keys may deliver to a collector, and for which runs.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::keys {

struct AllowedKey {
  std::string key;                ///< public, Z85
  std::string note;               ///< whose it is, for people; may be ""
  std::vector<std::string> runs;  ///< the only ones that it may deliver; none: every run

  bool may_deliver(std::string_view run) const;
};

/// The list as data. As text it is one JSON object a line: {"key": "...", "note": "node1", "runs": ["job"]};
/// empty lines and lines that begin with # are nothing.
class AllowList {
 public:
  /// Throws Error that begins with "`where`:LINE: " for a line that is malformed or repeats a key.
  static AllowList parse(std::string_view text, const std::string& where);
  std::string text() const;

  /// In the order of the file.
  const std::vector<AllowedKey>& keys() const { return keys_; }
  /// nullptr when it is not allowed.
  const AllowedKey* find(std::string_view key) const;
  /// Those with this note.
  std::vector<const AllowedKey*> with_note(std::string_view note) const;

  /// Adds a key. One that is there and tied to runs gets the new ones too. False when nothing changes by
  /// that. Throws Error when the entry cannot be one, when its note is another key's, and when it would turn
  /// a key that is tied to runs into one that is not, or the other way round.
  bool allow(const AllowedKey& entry);
  /// False when it is not there.
  bool revoke(std::string_view key);

 private:
  void add(AllowedKey entry);

  std::vector<AllowedKey> keys_;
  std::map<std::string, std::size_t, std::less<>> index_;  // of keys_, by key
};

/// The list of a file. Throws Error when it cannot be read, is malformed, or others than its owner may write
/// it.
AllowList read_allow_list(const std::string& path);

/// Reads the file, or begins an empty one, has `change` change it, and puts it in place at one stroke unless
/// `change` returns false. Two of these at once do not lose each other's change.
void change_allow_list(const std::string& path, const std::function<bool(AllowList&)>& change);

}  // namespace laggard::keys
