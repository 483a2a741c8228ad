#include "daemon/keys/watched_allow_list.h"

#include "daemon/base/error.h"

namespace laggard::keys {
namespace {

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

WatchedAllowList::State WatchedAllowList::state_of(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {};
  return {true, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim, facts.st_ctim};
}

bool WatchedAllowList::same(const State& a, const State& b) {
  return a.there == b.there && a.device == b.device && a.inode == b.inode && a.size == b.size &&
         same_time(a.modified, b.modified) && same_time(a.changed, b.changed);
}

// The state is taken before the content: a change in between is found at the next look.
WatchedAllowList::WatchedAllowList(std::string path)
    : path_(std::move(path)),
      read_at_(state_of(path_)),
      list_(std::make_shared<AllowList>(read_allow_list(path_))) {}

bool WatchedAllowList::look() {
  const State now = state_of(path_);
  // What could not be read may be readable now without looking any different.
  if (same(now, read_at_) && problem_.empty()) return false;
  read_at_ = now;
  const std::string before = problem_;
  try {
    list_ = std::make_shared<AllowList>(read_allow_list(path_));
    problem_.clear();
    return true;
  } catch (const Error& error) {
    list_ = std::make_shared<AllowList>();
    problem_ = error.what();
    return problem_ != before;
  }
}

}  // namespace laggard::keys
