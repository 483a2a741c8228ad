#include "daemon/base/profile.h"

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "daemon/base/error.h"

namespace laggard {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"work", "input", "sync", "aside"};

[[noreturn]] void fail(const std::string& where, const toml::source_region& at, const std::string& what) {
  throw Error(where + ":" + std::to_string(at.begin.line) + ": " + what);
}

std::string text_of(const std::string& where, std::string_view key, const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) fail(where, node.source(), std::string(key) + " must be a text");
  return text->get();
}

std::map<std::string, std::string> text_table(const std::string& where, std::string_view key,
                                              const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr) fail(where, node.source(), std::string(key) + " must be a table of name = \"text\"");
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : *table) out.emplace(name.str(), text_of(where, name.str(), value));
  return out;
}

std::vector<std::string> text_array(const std::string& where, std::string_view key, const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) fail(where, node.source(), std::string(key) + " must be an array of texts");
  std::vector<std::string> out;
  for (const toml::node& element : *array) out.push_back(text_of(where, key, element));
  return out;
}

Ratio ratio_of(const std::string& where, const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr) fail(where, node.source(), "each of ratios must be a table");
  Ratio ratio;
  for (const auto& [key, value] : *table) {
    if (key == "name")
      ratio.name = text_of(where, key.str(), value);
    else if (key == "numerator")
      ratio.numerator = text_of(where, key.str(), value);
    else if (key == "denominator")
      ratio.denominator = text_of(where, key.str(), value);
    else if (key == "complement" && value.is_boolean())
      ratio.complement = value.as_boolean()->get();
    else
      fail(where, key.source(),
           "a ratio has name, numerator, denominator and complement = true or false, not " +
               std::string(key.str()));
  }
  if (ratio.name.empty() || ratio.numerator.empty() || ratio.denominator.empty())
    fail(where, node.source(), "a ratio needs name, numerator and denominator");
  return ratio;
}

std::vector<Ratio> ratios_of(const std::string& where, const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) fail(where, node.source(), "ratios must be written as [[ratios]]");
  std::vector<Ratio> out;
  for (const toml::node& element : *array) out.push_back(ratio_of(where, element));
  return out;
}

void check_kinds(const Profile& profile, const std::string& where) {
  for (const auto& [stage, kind] : profile.kinds)
    if (std::ranges::find(kKinds, kind) == kKinds.end())
      throw Error(where + ": stage " + stage + " has the unknown kind \"" + kind +
                  "\"; it is one of work, input, sync, aside");
}

void check_parents(const Profile& profile, const std::string& where) {
  for (const auto& [stage, parent] : profile.parents) {
    // A chain without a circle ends after at most as many links as there are stages with a parent.
    auto it = profile.parents.find(stage);
    for (std::size_t links = 0; it != profile.parents.end(); ++links) {
      if (links > profile.parents.size())
        throw Error(where + ": the parents of stage " + stage + " form a circle");
      it = profile.parents.find(it->second);
    }
  }
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& where) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail(where, error.source(), std::string(error.description()));
  }
  Profile profile;
  for (const auto& [key, value] : table) {
    if (key == "parents")
      profile.parents = text_table(where, key.str(), value);
    else if (key == "kinds")
      profile.kinds = text_table(where, key.str(), value);
    else if (key == "exclusive_names")
      profile.exclusive_names = text_table(where, key.str(), value);
    else if (key == "stage_order")
      profile.stage_order = text_array(where, key.str(), value);
    else if (key == "may_differ")
      profile.may_differ = text_array(where, key.str(), value);
    else if (key == "match_counts")
      profile.match_counts = text_array(where, key.str(), value);
    else if (key == "ratios")
      profile.ratios = ratios_of(where, value);
    else
      fail(where, key.source(), "unknown key " + std::string(key.str()));
  }
  check_kinds(profile, where);
  check_parents(profile, where);
  return profile;
}

Profile load_profile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw Error("cannot read the profile " + path);
  return parse_profile(text.str(), path);
}

}  // namespace laggard
