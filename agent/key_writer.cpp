#include "agent/key_writer.h"

#include <algorithm>
#include <numeric>

namespace laggard::agent {
namespace {

constexpr std::size_t kFew = 24;  // up to here comparing each with each is faster than sorting

}  // namespace

bool KeyWriter::finish() {
  if (keys_->size() != places_.size()) {
    keys_->resize(places_.size());
    changed_ = true;
  }
  return changed_;
}

void KeyWriter::find_repeated(std::vector<const char*>* earlier) const {
  const std::vector<std::string>& keys = *keys_;
  if (keys.size() <= kFew) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (std::find(keys.begin() + static_cast<std::ptrdiff_t>(i) + 1, keys.end(), keys[i]) != keys.end())
        earlier->push_back(places_[i]);
    return;
  }
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::string_view(keys[i]); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (keys[order[i - 1]] == keys[order[i]]) earlier->push_back(places_[order[i - 1]]);
}

}  // namespace laggard::agent
