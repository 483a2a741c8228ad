// Prometheus' text format, version 0.0.4.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace laggard::serve {

/// True for a text that may stand in a label: UTF-8 without a NUL. One other label makes Prometheus refuse
/// the whole page.
bool is_label_text(std::string_view text);

/// A page of metrics. prometheus-cpp's serializer is not used: it prints 16 digits, which is one too few for
/// a double to come back as the same bits.
class MetricsText {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  /// All samples of one metric.
  class Family {
   public:
    Family(std::string_view name, std::string_view type, std::string_view help);
    /// Label values must be is_label_text(), and the labels unlike those of any other sample.
    void add(Labels labels, double value);
    void add(Labels labels, std::unsigned_integral auto value) { add_text(labels, std::to_string(value)); }
    void add(Labels labels, std::signed_integral auto value) { add_text(labels, std::to_string(value)); }
    bool empty() const { return samples_.empty(); }

   private:
    friend class MetricsText;
    void add_text(Labels labels, std::string_view value);
    std::string name_, head_, samples_;
  };

  Family& counter(std::string_view name, std::string_view help);
  Family& gauge(std::string_view name, std::string_view help);
  /// The page; families without a sample are left out.
  std::string text() const;

 private:
  std::deque<Family> families_;
};

}  // namespace laggard::serve
