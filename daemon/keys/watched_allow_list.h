// The allow-list of a collector that runs.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "daemon/keys/allow_list.h"

namespace laggard::keys {

/// An allow-list that is read again when its file has changed. While the file cannot be read nobody is
/// allowed: what a broken file was meant to forbid is not known, and agents keep their records meanwhile.
class WatchedAllowList {
 public:
  /// Throws Error when it cannot be read.
  explicit WatchedAllowList(std::string path);

  /// Looks at the file; true when the list is another one now. Costs one stat() when it is not.
  bool look();
  const std::shared_ptr<const AllowList>& list() const { return list_; }
  /// Why the file cannot be read; "" while it can.
  const std::string& problem() const { return problem_; }

 private:
  struct State {
    bool there = false;
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    timespec modified{}, changed{};
  };
  static State state_of(const std::string& path);
  static bool same(const State& a, const State& b);

  std::string path_, problem_;
  State read_at_;
  std::shared_ptr<const AllowList> list_;
};

}  // namespace laggard::keys
