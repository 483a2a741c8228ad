// Lines of a followed file, read as the agent reads them and delivered to a collector, which must take
// whatever the agent has accepted and account for each item once.
#include <map>

#include "agent/line_parser.h"
#include "agent/rank_source.h"
#include "daemon/base/limits.h"
#include "tests/fuzz/door.h"
#include "tests/fuzz/fuzzer.h"

namespace {

using namespace laggard;
using fuzz::require;

/// Sources of the ranks that the lines speak of, connected to one collector.
class Delivery {
 public:
  void add(const agent::ParsedLine& line) {
    require(line.kind >= agent::LineKind::foreign || line.rank < limits::kMaxRank, "a rank within its bound");
    if (line.kind >= agent::LineKind::foreign) return require(!line.reason.empty(), "a reason");
    agent::RankSource& source = source_of(line.rank);
    if (line.kind == agent::LineKind::update)
      items_ += source.add_update(line).has_value() ? 0 : 1;
    else if (line.kind == agent::LineKind::config)
      source.add_config(line), ++items_;
    else
      source.add_end(), ++items_;
  }
  void finish() {
    for (auto& [rank, source] : sources_) {
      source.flush();
      greet(source);
      while (const auto batch = source.next_batch()) send(*batch);
    }
    require(door_.counts().messages_malformed == 0, "the collector takes what the agent sends");
    require(door_.counts().items == items_, "every item comes in");
    require(door_.items_accounted_for() == items_, "every item is accounted for once");
    door_.finish();
  }

 private:
  agent::RankSource& source_of(Rank rank) {
    const auto channel = static_cast<std::uint32_t>(sources_.size());
    const agent::Hello hello{
        .run = "job", .rank = rank, .source = {.id = std::to_string(rank), .host = "node", .origin = "/log"}};
    return sources_.try_emplace(rank, channel, hello, agent::AttemptState{}).first->second;
  }
  void greet(agent::RankSource& source) {
    const auto answers = send(source.hello());
    require(!answers.empty(), "an answer to a Hello");  // before acks of sources that came earlier
    const auto answer = agent::decode(answers[0]);
    const auto* welcome = answer.has_value() ? std::get_if<agent::Welcome>(&answer->body) : nullptr;
    require(welcome != nullptr && source.on_welcome(*welcome), "a Welcome");
  }
  std::vector<std::string> send(const std::string& message) {
    require(message.size() <= limits::kMaxMessageBytes, "a message within its bound");
    std::vector<std::string> answers;
    door_.receive(message, &answers);
    return answers;
  }

  fuzz::Door door_;
  std::map<Rank, agent::RankSource> sources_;
  std::uint64_t items_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::text_of(data, size);
  agent::LineParser parser;
  Delivery delivery;
  while (!rest.empty()) {
    parser.start(fuzz::take(rest, '\n'));
    while (const agent::ParsedLine* line = parser.next()) delivery.add(*line);
  }
  delivery.finish();
  return 0;
}
