#include "daemon/app/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>

#include "daemon/base/error.h"

namespace laggard::app {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Clock = ServiceManager::Clock;

/// systemd's end, on an abstract address of this process' own.
class ServiceManagerTest : public testing::Test {
 protected:
  ServiceManagerTest() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~ServiceManagerTest() override { close(socket_); }

  Environment environment(const std::map<std::string, std::string>& more = {}) const {
    std::map<std::string, std::string> all{{"NOTIFY_SOCKET", name_}};
    all.insert(more.begin(), more.end());
    return [all](const std::string& name) {
      const auto found = all.find(name);
      return found == all.end() ? std::nullopt : std::optional(found->second);
    };
  }
  /// What has come so far.
  std::vector<std::string> said() const {
    std::vector<std::string> out;
    std::array<char, 1024> bytes{};
    for (ssize_t n; (n = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;)
      out.emplace_back(bytes.data(), static_cast<std::size_t>(n));
    return out;
  }

  const std::string name_ = "@laggard-service-test-" + std::to_string(::getpid());
  const int socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const Clock::time_point begin_ = Clock::time_point(std::chrono::hours(1));
};

TEST_F(ServiceManagerTest, WhatItIsTold) {
  const ServiceManager manager(environment());
  manager.ready("fine");
  manager.stopping();
  EXPECT_THAT(said(), ElementsAre("READY=1\nSTATUS=fine", "STOPPING=1"));
}

TEST_F(ServiceManagerTest, TheWatchdogIsFedThreeTimesInItsInterval) {
  ServiceManager manager(
      environment({{"WATCHDOG_USEC", "3000000"}, {"WATCHDOG_PID", std::to_string(getpid())}}));
  for (int ms = 0; ms < 3000; ms += 50) manager.turned(begin_ + std::chrono::milliseconds(ms));
  EXPECT_THAT(said(), ElementsAre("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"));
  manager.turned(begin_ + std::chrono::milliseconds(2999));
  EXPECT_THAT(said(), IsEmpty());
  manager.turned(begin_ + std::chrono::milliseconds(3000));
  EXPECT_THAT(said(), ElementsAre("WATCHDOG=1"));
}

TEST_F(ServiceManagerTest, AWatchdogThatIsNotOursIsNotFed) {
  for (const auto& more : std::vector<std::map<std::string, std::string>>{
           {},
           {{"WATCHDOG_USEC", "soon"}},
           {{"WATCHDOG_USEC", ""}},
           {{"WATCHDOG_USEC", "3000000"}, {"WATCHDOG_PID", "1"}},
           {{"WATCHDOG_USEC", "3000000"}, {"WATCHDOG_PID", ""}}}) {
    ServiceManager manager(environment(more));
    manager.turned(begin_);
    EXPECT_THAT(said(), IsEmpty());
  }
}

TEST_F(ServiceManagerTest, AServiceManagerThatTakesNothingDelaysNoTurn) {
  ServiceManager manager(environment({{"WATCHDOG_USEC", "3"}}));
  // Far more than its queue holds; a sender that waits would be here for ever.
  for (int us = 0; us < 10'000; ++us) manager.turned(begin_ + std::chrono::microseconds(us));
  EXPECT_FALSE(said().empty());
}

TEST(ServiceManager, WithoutASocketNothingIsSaid) {
  const std::map<std::string, std::string> empty{{"NOTIFY_SOCKET", ""}, {"WATCHDOG_USEC", "1"}};
  ServiceManager manager([&](const std::string& name) {
    const auto found = empty.find(name);
    return found == empty.end() ? std::nullopt : std::optional(found->second);
  });
  manager.ready("");
  manager.turned(Clock::time_point(std::chrono::hours(1)));
}

TEST(ServiceManager, ASocketThatCannotBeOneIsAnError) {
  for (const std::string& name :
       {std::string("vsock:2:1"), std::string("relative"), "/" + std::string(200, 'x')})
    EXPECT_THROW(ServiceManager manager([&](const std::string& variable) {
                   return variable == "NOTIFY_SOCKET" ? std::optional(name) : std::nullopt;
                 }),
                 Error)
        << name;
}

}  // namespace
}  // namespace laggard::app
