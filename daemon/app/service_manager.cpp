#include "daemon/app/service_manager.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>

#include "daemon/base/error.h"

namespace laggard::app {
namespace {

// A service manager that takes nothing for so long has troubles of its own.
constexpr timeval kPatience{.tv_sec = 5, .tv_usec = 0};
constexpr int kFeedsPerInterval = 3;

std::optional<std::uint64_t> number(const std::optional<std::string>& text) {
  std::uint64_t value = 0;
  if (!text.has_value()) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() && end == text->data() + text->size() ? std::optional(value) : std::nullopt;
}

}  // namespace

ServiceManager::ServiceManager(const Environment& environment) {
  const auto name = environment("NOTIFY_SOCKET");
  if (!name.has_value() || name->empty()) return;
  address_ = *name;
  const bool is_abstract = address_.starts_with('@');
  if (!(is_abstract || address_.starts_with('/')) || address_.size() >= sizeof(sockaddr_un::sun_path))
    throw Error("NOTIFY_SOCKET is \"" + address_ + "\", which is no socket of this machine");
  if (is_abstract) address_[0] = '\0';
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) throw Error(std::string("no socket for NOTIFY_SOCKET: ") + std::strerror(errno));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  // A watchdog may be meant for another process, which inherited the variables to us.
  const auto pid = environment("WATCHDOG_PID");
  if (pid.has_value() && number(pid) != static_cast<std::uint64_t>(getpid())) return;
  if (const auto interval = number(environment("WATCHDOG_USEC")))
    feed_every_ = std::chrono::microseconds(*interval / kFeedsPerInterval);
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) close(socket_);
}

void ServiceManager::ready(const std::string& status) const { send("READY=1\nSTATUS=" + status, 0); }

void ServiceManager::stopping() const { send("STOPPING=1", 0); }

void ServiceManager::turned(Clock::time_point now) {
  if (feed_every_ == Clock::duration::zero() || now < next_feed_) return;
  next_feed_ = now + feed_every_;
  send("WATCHDOG=1", MSG_DONTWAIT);
}

void ServiceManager::send(const std::string& text, int flags) const {
  if (socket_ < 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  if (sendto(socket_, text.data(), text.size(), flags | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
             size) < 0)
    spdlog::warn("the service manager was not told {}: {}", text.substr(0, text.find('\n')),
                 std::strerror(errno));
}

}  // namespace laggard::app
