#include "daemon/serve/report_body.h"

#include <initializer_list>

#include "daemon/base/limits.h"
#include "daemon/core/model.h"
#include "daemon/serve/query_error.h"

namespace laggard::serve {
namespace {

// Unlike the ordered Json of the answers it finds a key among many without looking at each: with that one, an
// object of 100,000 keys takes half a minute to read.
using Body = nlohmann::json;

QueryError bad(const std::string& what) { return {400, "bad_request", "the request's body: " + what}; }

void check_keys(const Body& object, const std::string& what, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) throw bad(what + " must be an object");
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw bad(what + " has no key \"" + key + "\"");
}

std::string text_of(const Body& json, const std::string& what) {
  if (!json.is_string()) throw bad(what + " must be a text");
  return json.get<std::string>();
}

const Body* find(const Body& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::vector<std::string> texts(const Body& object, const char* key) {
  std::vector<std::string> list;
  const Body* json = find(object, key);
  if (json == nullptr) return list;
  if (!json->is_array()) throw bad(std::string(key) + " must be a list of texts");
  for (const Body& item : *json) list.push_back(text_of(item, std::string(key) + "'s items"));
  return list;
}

std::map<std::string, std::string> text_map(const Body& object, const char* key) {
  std::map<std::string, std::string> map;
  const Body* json = find(object, key);
  if (json == nullptr) return map;
  if (!json->is_object()) throw bad(std::string(key) + " must be an object of texts");
  for (const auto& [name, value] : json->items()) map[name] = text_of(value, std::string(key) + "." + name);
  return map;
}

std::vector<Ratio> ratios_of(const Body& profile) {
  std::vector<Ratio> ratios;
  const Body* json = find(profile, "ratios");
  if (json == nullptr) return ratios;
  if (!json->is_array()) throw bad("ratios must be a list");
  for (const Body& item : *json) {
    check_keys(item, "a ratio", {"name", "numerator", "denominator", "complement"});
    Ratio ratio;
    for (auto [key, field] : {std::pair{"name", &Ratio::name}, std::pair{"numerator", &Ratio::numerator},
                              std::pair{"denominator", &Ratio::denominator}}) {
      if (!item.contains(key)) throw bad(std::string("a ratio needs \"") + key + "\"");
      ratio.*field = text_of(item[key], key);
    }
    if (const Body* complement = find(item, "complement")) {
      if (!complement->is_boolean()) throw bad("a ratio's complement must be true or false");
      ratio.complement = complement->get<bool>();
    }
    ratios.push_back(std::move(ratio));
  }
  return ratios;
}

Profile profile_of(const Body& json) {
  check_keys(json, "profile",
             {"parents", "kinds", "exclusive_names", "stage_order", "ratios", "may_differ", "match_counts"});
  Profile profile{.parents = text_map(json, "parents"),
                  .kinds = text_map(json, "kinds"),
                  .exclusive_names = text_map(json, "exclusive_names"),
                  .stage_order = texts(json, "stage_order"),
                  .ratios = ratios_of(json),
                  .may_differ = texts(json, "may_differ"),
                  .match_counts = texts(json, "match_counts")};
  for (const auto& [stage, kind] : profile.kinds)
    if (!core::stage_kind_of(kind).has_value())
      throw bad("stage \"" + stage + "\" is of the kind \"" + kind +
                "\"; the kinds are work, input, sync, aside");
  return profile;
}

std::optional<Step> step_of(const Body& object, const char* key) {
  const Body* json = find(object, key);
  if (json == nullptr) return std::nullopt;
  const bool fits =
      json->is_number_integer() &&
      (!json->is_number_unsigned() ||
       json->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Step>::max()));
  if (!fits) throw bad(std::string(key) + " must be a step number");
  return json->get<Step>();
}

Body object_of(std::string_view body, std::initializer_list<std::string_view> known) {
  Body json = is_too_deep(body) ? Body(Body::value_t::discarded) : Body::parse(body, nullptr, false);
  if (json.is_discarded()) throw bad("it is not JSON");
  check_keys(json, "it", known);
  return json;
}

core::Window window_in(const Body& json) {
  const core::Window window{.from = step_of(json, "from"), .to = step_of(json, "to")};
  if (window.from > window.to && window.to.has_value()) throw bad("from must not be larger than to");
  return window;
}

void check_number(std::size_t runs, const std::string& what) {
  if (runs > limits::kMaxRunsPerReport)
    throw QueryError(422, "too_much",
                     what + " is of at most " + std::to_string(limits::kMaxRunsPerReport) + " runs");
}

}  // namespace

ReportAsked parse_report_body(std::string_view body) {
  const Body json = object_of(body, {"runs", "from", "to", "window_only", "profile"});
  ReportAsked asked{.runs = texts(json, "runs"), .window = window_in(json), .profile = {}};
  if (const Body* only = find(json, "window_only")) {
    if (!only->is_boolean()) throw bad("window_only must be true or false");
    asked.window_only = only->get<bool>();
  }
  if (asked.runs.empty()) throw bad("runs must name at least one run");
  check_number(asked.runs.size(), "a report");
  if (const Body* profile = find(json, "profile")) asked.profile = profile_of(*profile);
  return asked;
}

CompareAsked parse_compare_body(std::string_view body) {
  const Body json = object_of(body, {"base", "new", "from", "to", "profile"});
  CompareAsked asked{
      .base = texts(json, "base"), .newer = texts(json, "new"), .window = window_in(json), .profile = {}};
  if (asked.base.empty()) throw bad("base must name at least one run");
  if (asked.newer.empty()) throw bad("new must name at least one run");
  check_number(asked.base.size() + asked.newer.size(), "a comparison");
  if (const Body* profile = find(json, "profile")) asked.profile = profile_of(*profile);
  return asked;
}

}  // namespace laggard::serve
