#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "client/commands/commands.h"
#include "client/render/json_text.h"
#include "client/render/text.h"
#include "client/views/views.h"
#include "daemon/base/private_file.h"
#include "daemon/keys/allow_list.h"
#include "daemon/keys/key_file.h"

namespace laggard::client {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "keys";  // in the data directory, where laggardd looks
constexpr const char* kAllowList = "allowed.jsonl";

/// Which allow-list: its file, or the data directory of its collector.
struct ListOptions {
  std::string data, file;

  void add_to(CLI::App& command) {
    command.add_option("--data", data, "The collector's data directory, which holds keys/allowed.jsonl")
        ->envname("LAGGARD_DATA");
    command.add_option("--allow-list", file, "The allow-list, when it lies elsewhere")
        ->envname("LAGGARD_ALLOW_LIST");
  }
  fs::path path() const {
    if (!file.empty()) return file;
    if (data.empty())
      throw Failure(ExitCode::usage,
                    "which allow-list? Say --data DIR (the collector's) or --allow-list FILE");
    return fs::path(data) / kFolder / kAllowList;
  }
};

View list_view(const std::vector<keys::AllowedKey>& entries) {
  Table table{
      "", {{"note", "note", Align::left}, {"key", "key", Align::left}, {"runs", "runs", Align::left}}, {}};
  Json rows = Json::array();
  for (const keys::AllowedKey& entry : entries) {
    std::string runs;
    for (const std::string& run : entry.runs) runs += (runs.empty() ? "" : ", ") + run;
    table.rows.push_back({entry.note.empty() ? Cell() : Cell(entry.note), Cell(entry.key),
                          runs.empty() ? Cell("every run") : Cell(runs)});
    rows.push_back({{"note", entry.note.empty() ? Json() : Json(entry.note)},
                    {"key", entry.key},
                    {"runs", entry.runs.empty() ? Json() : Json(entry.runs)}});
  }
  View view;
  view.json = {{"keys", std::move(rows)}};
  view.screen = {table};
  view.rows = std::move(table);
  return view;
}

keys::PublicKey public_key(const std::string& file_or_key) {
  std::error_code ignored;
  if (!keys::is_key(file_or_key) && !fs::exists(file_or_key, ignored))
    throw Failure(ExitCode::no_such_data,
                  "there is no file " + file_or_key + ", and a key is 40 characters of Z85");
  return keys::read_public_key(file_or_key);
}

keys::AllowList list_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Failure(ExitCode::no_such_data,
                  "there is no allow-list " + path.string() + "; laggard keys allow makes it");
  return keys::read_allow_list(path.string());
}

void add_new(CLI::App& app, Context& context) {
  struct Options {
    std::string name, directory = ".", data;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "new", "A new key: NAME.secret, which stays where it is, and NAME.pub", "Commands",
                  "laggard keys new node1 --dir /etc/laggard", "No file is overwritten.");
  command->add_option("name", options->name, "Whose key; letters, digits, '.', '_' and '-'")->required();
  CLI::Option* directory =
      command->add_option("--dir", options->directory, "Where to put the two files")->capture_default_str();
  command->add_option("--data", options->data, "A collector's data directory: into its folder keys")
      ->excludes(directory);
  command->callback([&context, options] {
    const fs::path into =
        options->data.empty() ? fs::path(options->directory) : fs::path(options->data) / kFolder;
    if (!options->data.empty()) {
      make_private_directory(options->data);
      make_private_directory(into);
    }
    if (!fs::is_directory(into))
      throw Failure(ExitCode::no_such_data, "there is no directory " + into.string() + ": make it first");
    const keys::KeyFiles files = keys::create_key_files(into, options->name);
    const Table table{
        "",
        {{"public_key", "public key", Align::left},
         {"public_file", "public file", Align::left},
         {"secret_file", "secret file", Align::left}},
        {{Cell(files.public_key), Cell(files.public_file.string()), Cell(files.secret_file.string())}}};
    context.show({{table}, table, json_rows(table)[0]});
  });
}

void add_allow(CLI::App& app, Context& context) {
  struct Options {
    ListOptions list;
    std::string key, note;
    std::vector<std::string> runs;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "allow", "Lets the agent with a key deliver", "Commands",
                  "laggard keys allow node1.pub --data /var/lib/laggard --run job",
                  "The collector sees it within a second. A key that is tied to runs already\n"
                  "gets one more by --run.");
  command->add_option("key", options->key, "A public key: its file, or its 40 characters")->required();
  command->add_option("--run", options->runs, "Only this run; may be said several times");
  command->add_option("--note", options->note, "Whose key it is, for people. Default: the name in the file");
  options->list.add_to(*command);
  command->callback([&context, options] {
    const fs::path path = options->list.path();
    const keys::PublicKey key = public_key(options->key);
    const keys::AllowedKey entry{key.key, options->note.empty() ? key.name : options->note, options->runs};
    if (options->list.file.empty()) {
      const fs::path data = path.parent_path().parent_path();
      if (!fs::is_directory(data))
        throw Failure(ExitCode::no_such_data, "there is no data directory " + data.string() +
                                                  ": give the one that laggardd has, or --allow-list FILE");
      make_private_directory(path.parent_path());
    }
    bool changed = false;
    keys::AllowedKey allowed;
    keys::change_allow_list(path.string(), [&](keys::AllowList& list) {
      changed = list.allow(entry);
      allowed = *list.find(entry.key);
      return changed;
    });
    context.show(list_view({allowed}));
    if (!changed) context.console.err("laggard: that was allowed already\n");
  });
}

void add_list(CLI::App& app, Context& context) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = add_command(app, "list", "The keys that are allowed", "Commands",
                                  "laggard keys list --data /var/lib/laggard -o json");
  options->add_to(*command);
  command->callback([&context, options] { context.show(list_view(list_of(options->path()).keys())); });
}

// The one key that somebody means by its note, its text or its file.
std::string key_of(const keys::AllowList& list, const std::string& who) {
  const auto noted = list.with_note(who);
  if (noted.size() == 1) return noted.front()->key;
  if (noted.size() > 1)
    throw Failure(ExitCode::usage, std::to_string(noted.size()) + " keys have the note \"" + who +
                                       "\": say which by the key itself");
  return public_key(who).key;
}

void add_revoke(CLI::App& app, Context& context) {
  struct Options {
    ListOptions list;
    std::string who;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, "revoke", "Lets the agent with a key deliver no more", "Commands",
                                  "laggard keys revoke node1 --data /var/lib/laggard",
                                  "The collector refuses it within a second, also when it is connected.");
  command->add_option("who", options->who, "A key: its note in the list, its file, or its 40 characters")
      ->required();
  options->list.add_to(*command);
  command->callback([&context, options] {
    const fs::path path = options->list.path();
    (void)list_of(path);
    keys::AllowedKey gone;
    keys::change_allow_list(path.string(), [&](keys::AllowList& list) {
      const std::string key = key_of(list, options->who);
      if (list.find(key) == nullptr)
        throw Failure(ExitCode::no_such_data,
                      "the key " + key + " is not on the allow-list " + path.string());
      gone = *list.find(key);
      return list.revoke(key);
    });
    context.show(list_view({gone}));
  });
}

}  // namespace

void add_keys(CLI::App& app, Context& context) {
  CLI::App* command = add_command(app, "keys", "Keys of agents and collectors, and who is allowed", "Keys",
                                  "laggard keys list --data /var/lib/laggard",
                                  "These commands work on files and ask no collector.");
  command->require_subcommand(1);
  add_new(*command, context);
  add_allow(*command, context);
  add_list(*command, context);
  add_revoke(*command, context);
}

}  // namespace laggard::client
