// The keys of a record's objects, which mostly repeat those of the record before.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace laggard::agent {

/// Writes the keys of one JSON object into a vector, reusing its strings: a key that already stands in its
/// place costs one comparison. Of a key that occurs twice it tells the earlier places in the text.
class KeyWriter {
 public:
  void begin(std::vector<std::string>* keys) {
    keys_ = keys;
    places_.clear();
    changed_ = false;
  }
  void add(std::string_view key, const char* place) {
    const std::size_t i = places_.size();
    if (i == keys_->size()) {
      keys_->emplace_back(key);
      changed_ = true;
    } else if ((*keys_)[i] != key) {
      (*keys_)[i] = key;
      changed_ = true;
    }
    places_.push_back(place);
  }
  /// Drops what the vector held beyond the keys added. True when the vector is not what it was at begin().
  bool finish();
  /// Appends the place of every key that occurs again later.
  void find_repeated(std::vector<const char*>* earlier) const;

 private:
  std::vector<std::string>* keys_ = nullptr;
  std::vector<const char*> places_;
  bool changed_ = false;
};

}  // namespace laggard::agent
