#include "agent/farewell.h"

#include <algorithm>
#include <set>
#include <variant>

#include "agent/messages.h"

namespace laggard::agent {
namespace {

using namespace std::chrono_literals;
using FarewellClock = std::chrono::steady_clock;

constexpr auto kListen = 20ms;

}  // namespace

void say_bye(CollectorLink& link, const std::vector<LastWords>& sources, FarewellClock::time_point limit) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - FarewellClock::now());
  link.set_linger(std::max(left, std::chrono::milliseconds(0)));
  std::set<std::uint32_t> unanswered;
  const auto listen = [&] {
    link.wait({}, kListen);
    while (link.next_event()) {
    }
    while (const auto message = link.receive())
      if (const auto incoming = decode(*message);
          incoming &&
          (std::holds_alternative<Bye>(incoming->body) || std::holds_alternative<Reject>(incoming->body)))
        unanswered.erase(incoming->channel);
    return link.is_connected() && FarewellClock::now() < limit;
  };
  // Thousands of ranks say more at once than the socket takes.
  const auto send = [&](const std::string& message) {
    while (!link.is_ready())
      if (!listen()) return;
    link.send(message);
  };
  for (const LastWords& source : sources) {
    unanswered.insert(source.channel);
    for (const std::string& message : source.messages) send(message);
  }
  while (!unanswered.empty() && listen()) (void)link.is_ready();  // the last message may be held back
}

}  // namespace laggard::agent
