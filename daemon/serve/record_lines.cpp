#include "daemon/serve/record_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "daemon/base/value.h"

namespace laggard::serve {
namespace {

/// Members of a JSON object: unescaped name and the value's own text, which is never read as a number, so
/// that nothing of it can change.
using Members = std::vector<std::pair<std::string, std::string>>;

Members members_of(std::string_view object_text) {
  Members members;
  const simdjson::padded_string padded(object_text);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return members;
  if (document.get_object().get(object) != simdjson::SUCCESS) return members;
  for (auto field : object) {
    std::string_view name, text;
    simdjson::ondemand::value value;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS) break;
    std::string owned_name(name);
    if (field.value().get(value) != simdjson::SUCCESS) break;
    // A bare NaN is no JSON value: only its token can be taken.
    if (simdjson::to_json_string(value).get(text) != simdjson::SUCCESS) text = value.raw_json_token();
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    // Line breaks can only stand between tokens, and would tear the line.
    std::string one_line(text);
    std::ranges::replace_if(
        one_line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    members.emplace_back(std::move(owned_name), std::move(one_line));
  }
  return members;
}

void append_text(std::string_view text, std::string* out) {
  const bool plain =
      std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    out->append("\"").append(text).append("\"");
  } else {
    out->append(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

void append_number(std::int64_t value, std::string* out) { out->append(std::to_string(value)); }

void append_number(double value, std::string* out) {
  if (state_of(value) == ValueState::null) {
    out->append("null");
  } else if (std::isnan(value)) {
    out->append("NaN");
  } else if (std::isinf(value)) {
    out->append(value > 0 ? "Infinity" : "-Infinity");
  } else {
    char buffer[32];
    const auto [end, error] = std::to_chars(std::begin(buffer), std::end(buffer), value);
    const std::string_view digits(buffer, end);
    out->append(digits);
    if (digits.find_first_of(".e") == std::string_view::npos) out->append(".0");
  }
}

/// Writes one line, merging what the typed fields could not hold back to where it came from.
class UpdateLine {
 public:
  UpdateLine(const RecordView& record, std::string* out) : out_(out) {
    if (record.rest != nullptr && !record.rest->extra.empty()) extra_ = members_of(record.rest->extra);
  }

  template <typename Number>
  void number(std::string_view name, Number value) {
    if constexpr (std::is_same_v<Number, double>)
      if (is_elsewhere(value)) return;
    begin(name);
    append_number(value, out_);
  }

  template <typename Name, typename Number>
  void object(std::string_view name, std::span<const Name> names, std::span<const Number> numbers) {
    const std::string* extra = take_extra(name);
    if (names.empty() && extra == nullptr) return;
    begin(name);
    *out_ += '{';
    first_ = true;
    for (std::size_t i = 0; i < names.size(); ++i) number(std::string_view(names[i]), numbers[i]);
    if (extra != nullptr)
      for (const auto& [key, text] : members_of(*extra)) raw(key, text);
    *out_ += '}';
    first_ = false;
  }

  void raw(std::string_view name, std::string_view json) {
    begin(name);
    out_->append(json);
  }

  void remaining_extra() {
    for (const auto& [name, text] : extra_) raw(name, text);
  }

  void begin(std::string_view name) {
    out_->append(first_ ? "" : ", ");
    first_ = false;
    append_text(name, out_);
    out_->append(": ");
  }

 private:
  /// An absent number is nowhere; a text in its place stands in the extra.
  static bool is_elsewhere(double value) {
    return state_of(value) == ValueState::absent || state_of(value) == ValueState::text;
  }

  /// The extra members of this object, when it has any: they are written with the object.
  const std::string* take_extra(std::string_view name) {
    const auto it = std::ranges::find_if(
        extra_, [&](const auto& member) { return member.first == name && member.second.starts_with('{'); });
    if (it == extra_.end()) return nullptr;
    taken_ = std::move(it->second);
    extra_.erase(it);
    return &taken_;
  }

  std::string* out_;
  Members extra_;
  std::string taken_;
  bool first_ = false;
};

void append_histogram(const Histogram& histogram, UpdateLine* line) {
  std::vector<std::string_view> keys;
  std::vector<std::int64_t> bins;
  for (const auto& [key, bin] : histogram.bins) {
    keys.push_back(key);
    bins.push_back(bin);
  }
  line->object(histogram.name, std::span<const std::string_view>(keys), std::span<const std::int64_t>(bins));
}

void append_rest(const RecordView& record, UpdateLine* line, std::string* out) {
  if (record.rest != nullptr)
    for (const Histogram& histogram : record.rest->histograms) append_histogram(histogram, line);
  if (!record.sample_indices.empty()) {
    line->begin("sample_indices");
    for (std::size_t i = 0; i < record.sample_indices.size(); ++i) {
      out->append(i == 0 ? "[" : ", ");
      append_number(record.sample_indices[i], out);
    }
    *out += ']';
  }
  if (record.rest != nullptr && !record.rest->tags.empty()) {
    line->begin("tags");
    for (std::size_t i = 0; i < record.rest->tags.size(); ++i) {
      out->append(i == 0 ? "[" : ", ");
      append_text(record.rest->tags[i], out);
    }
    *out += ']';
  }
}

}  // namespace

void append_update_line(const RecordView& record, std::string* out) {
  const Layout& layout = *record.layout;
  out->append(R"({"type": "update")");
  UpdateLine line(record, out);
  line.number("rank", static_cast<std::int64_t>(record.rank));
  line.number("step", record.step);
  line.number("wall_ms", record.wall_ms());
  line.object("cuda_stream_ms", std::span(layout.stream), record.stream_ms());
  line.object("cpu_call_ms", std::span(layout.host), record.host_ms());
  line.object("calls", std::span(layout.calls), record.calls());
  line.object("counts", std::span(layout.counts), record.counts());
  append_rest(record, &line, out);
  for (std::size_t i = 0; i < layout.int_values.size(); ++i)
    line.number(layout.int_values[i], record.int_values()[i]);
  for (std::size_t i = 0; i < layout.values.size(); ++i) line.number(layout.values[i], record.values()[i]);
  line.remaining_extra();
  out->append("}\n");
}

void append_config_line(std::string_view settings, std::string* out) {
  const Members members = members_of(settings);
  out->append(R"({"type": "config")");
  for (const auto& [name, text] : members) {
    if (name == "type") continue;
    out->append(", ");
    append_text(name, out);
    out->append(": ").append(text);
  }
  out->append("}\n");
}

}  // namespace laggard::serve
