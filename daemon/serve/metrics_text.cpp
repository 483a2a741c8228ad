#include "daemon/serve/metrics_text.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>

namespace laggard::serve {
namespace {

void append_escaped(std::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == '\\' || c == '"') *out += '\\';
    if (c == '\n')
      out->append("\\n");
    else
      *out += c;
  }
}

}  // namespace

bool is_label_text(std::string_view text) {
  return simdjson::validate_utf8(text) && text.find('\0') == std::string_view::npos;
}

MetricsText::Family::Family(std::string_view name, std::string_view type, std::string_view help)
    : name_(name) {
  head_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  head_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void MetricsText::Family::add(Labels labels, double value) {
  if (std::isnan(value)) return add_text(labels, "NaN");
  if (std::isinf(value)) return add_text(labels, value > 0 ? "+Inf" : "-Inf");
  char buffer[32];
  const auto [end, error] = std::to_chars(std::begin(buffer), std::end(buffer), value);
  add_text(labels, std::string_view(buffer, end));
}

void MetricsText::Family::add_text(Labels labels, std::string_view value) {
  samples_.append(name_);
  char separator = '{';
  for (const auto& [name, text] : labels) {
    samples_ += separator;
    samples_.append(name).append("=\"");
    append_escaped(text, &samples_);
    samples_ += '"';
    separator = ',';
  }
  if (separator == ',') samples_ += '}';
  samples_.append(" ").append(value).append("\n");
}

MetricsText::Family& MetricsText::counter(std::string_view name, std::string_view help) {
  return families_.emplace_back(name, "counter", help);
}

MetricsText::Family& MetricsText::gauge(std::string_view name, std::string_view help) {
  return families_.emplace_back(name, "gauge", help);
}

std::string MetricsText::text() const {
  std::string out;
  for (const Family& family : families_)
    if (!family.empty()) out.append(family.head_).append(family.samples_);
  return out;
}

}  // namespace laggard::serve
