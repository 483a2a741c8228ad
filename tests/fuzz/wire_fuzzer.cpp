// Messages of a peer: a sound Hello, then the input as messages, each behind its length in two bytes (low
// byte first). What the door lets in must not break the core behind it.
#include <algorithm>

#include "agent/messages.h"
#include "tests/fuzz/door.h"
#include "tests/fuzz/fuzzer.h"

namespace {

using namespace laggard;

std::string sound_hello() {
  LayoutTable layouts;
  layouts.intern({.stream = {"forward", "backward"}, .counts = {"samples"}});
  layouts.intern({.stream = {"forward"}, .host = {"forward"}, .calls = {"forward"}, .values = {"loss"}});
  const agent::Hello hello{.run = "job",
                           .rank = 3,
                           .source = {.id = "a", .host = "node1", .origin = "/log/rank3.jsonl"},
                           .stages = {{"backward", "step", "sync"}}};
  return agent::encode_hello(0, hello, layouts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string kHello = sound_hello();
  fuzz::Door door;
  std::vector<std::string> answers;
  door.receive(kHello, &answers);
  for (std::string_view rest = fuzz::text_of(data, size); rest.size() > 2;) {
    const auto low = static_cast<unsigned char>(rest[0]), high = static_cast<unsigned char>(rest[1]);
    const std::size_t length = std::min<std::size_t>(low | (high << 8), rest.size() - 2);
    door.receive(rest.substr(2, length), &answers);
    rest.remove_prefix(2 + length);
  }
  // An agent reads what it is told.
  for (const std::string& answer : answers)
    fuzz::require(agent::decode(answer).has_value(), "an answer that an agent can read");
  door.finish();
  return 0;
}
