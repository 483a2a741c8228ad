#include "daemon/keys/allow_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/private_file.h"
#include "daemon/keys/key.h"
#include "daemon/keys/limits.h"

namespace laggard::keys {
namespace {

using nlohmann::ordered_json;

constexpr mode_t kWritableByOthers = 022;
constexpr const char* kHead =
    "# Who may deliver to this collector, a key a line. \"laggard keys\" writes this file; other comments "
    "are "
    "lost.\n";

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u < 0x20 || u == 0x7f;
  });
}

void check(const AllowedKey& entry) {
  if (!is_key(entry.key)) throw Error("the key is not 40 characters of Z85");
  if (entry.note.size() > limits::kMaxNameBytes || has_control(entry.note))
    throw Error("a note has at most " + std::to_string(limits::kMaxNameBytes) +
                " bytes and no control characters");
  if (entry.runs.size() > limits::kMaxRunsPerKey)
    throw Error("a key has at most " + std::to_string(limits::kMaxRunsPerKey) + " runs");
  for (const std::string& run : entry.runs)
    if (run.empty() || run.size() > limits::kMaxRunNameBytes || has_control(run) || run.find('@') != run.npos)
      throw Error("a run's name has 1 to " + std::to_string(limits::kMaxRunNameBytes) +
                  " bytes, no control characters and no @");
}

AllowedKey entry_of(std::string_view line) {
  const ordered_json json = ordered_json::parse(line, nullptr, false);
  if (!json.is_object()) throw Error("not a JSON object, as {\"key\": \"...\", \"note\": \"...\"}");
  AllowedKey entry;
  for (const auto& [name, value] : json.items()) {
    if (name == "key" && value.is_string()) {
      entry.key = value.get<std::string>();
    } else if (name == "note" && value.is_string()) {
      entry.note = value.get<std::string>();
    } else if (name == "runs" && value.is_array() && !value.empty() &&
               std::all_of(value.begin(), value.end(), [](const auto& run) { return run.is_string(); })) {
      entry.runs = value.get<std::vector<std::string>>();
    } else {
      // Not to be passed over: a tie that is misspelt would let the key deliver every run.
      throw Error("\"" + name +
                  "\" is not known, or not as it should be: there are key and note, texts, and "
                  "runs, a list of texts that is not empty");
    }
  }
  check(entry);
  return entry;
}

}  // namespace

bool AllowedKey::may_deliver(std::string_view run) const {
  return runs.empty() || std::find(runs.begin(), runs.end(), run) != runs.end();
}

AllowList AllowList::parse(std::string_view text, const std::string& where) {
  AllowList list;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == line.npos || line[0] == '#') continue;
    try {
      AllowedKey entry = entry_of(line);
      if (list.find(entry.key) != nullptr) throw Error("the key of an earlier line again");
      list.add(std::move(entry));
    } catch (const Error& error) {
      throw Error(where + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  return list;
}

std::string AllowList::text() const {
  std::string text = kHead;
  for (const AllowedKey& entry : keys_) {
    ordered_json line{{"key", entry.key}};
    if (!entry.note.empty()) line["note"] = entry.note;
    if (!entry.runs.empty()) line["runs"] = entry.runs;
    text += line.dump() + "\n";
  }
  return text;
}

const AllowedKey* AllowList::find(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &keys_[it->second];
}

std::vector<const AllowedKey*> AllowList::with_note(std::string_view note) const {
  std::vector<const AllowedKey*> found;
  for (const AllowedKey& entry : keys_)
    if (!note.empty() && entry.note == note) found.push_back(&entry);
  return found;
}

void AllowList::add(AllowedKey entry) {
  if (keys_.size() >= limits::kMaxAllowedKeys)
    throw Error("more than " + std::to_string(limits::kMaxAllowedKeys) + " keys");
  index_.emplace(entry.key, keys_.size());
  keys_.push_back(std::move(entry));
}

bool AllowList::allow(const AllowedKey& entry) {
  check(entry);
  try {
    (void)ordered_json({entry.note, entry.runs}).dump();
  } catch (const ordered_json::exception&) {
    throw Error("a note or a run's name is not UTF-8");
  }
  for (const AllowedKey* other : with_note(entry.note))
    if (other->key != entry.key)
      throw Error("another key has the note \"" + entry.note + "\": choose one with --note");
  const auto it = index_.find(entry.key);
  if (it == index_.end()) {
    add(entry);
    return true;
  }
  AllowedKey& known = keys_[it->second];
  AllowedKey merged = known;
  if (merged.runs.empty() != entry.runs.empty())
    throw Error(merged.runs.empty() ? "the key is allowed for every run; to tie it to one, revoke it first"
                                    : "the key is tied to runs; to allow it for every run, revoke it first");
  for (const std::string& run : entry.runs)
    if (!merged.may_deliver(run)) merged.runs.push_back(run);
  if (!entry.note.empty()) merged.note = entry.note;
  check(merged);
  const bool changed = merged.runs.size() != known.runs.size() || merged.note != known.note;
  known = std::move(merged);
  return changed;
}

bool AllowList::revoke(std::string_view key) {
  if (find(key) == nullptr) return false;
  std::vector<AllowedKey> before = std::move(keys_);
  keys_.clear();
  index_.clear();
  for (AllowedKey& entry : before)
    if (entry.key != key) add(std::move(entry));
  return true;
}

AllowList read_allow_list(const std::string& path) {
  const FileContent content = read_file(path, limits::kMaxAllowListBytes);
  if ((content.facts.st_mode & kWritableByOthers) != 0)
    throw Error("others than its owner may write the allow-list " + path +
                ": chmod 600 it, and look who is on it");
  return AllowList::parse(content.text, path);
}

void change_allow_list(const std::string& path, const std::function<bool(AllowList&)>& change) {
  namespace fs = std::filesystem;
  const fs::path parent = fs::path(path).parent_path();
  const DirectoryLock lock(parent.empty() ? fs::path(".") : parent);
  AllowList list;
  if (fs::exists(path)) list = read_allow_list(path);
  if (change(list)) replace_file(path, list.text());
}

}  // namespace laggard::keys
