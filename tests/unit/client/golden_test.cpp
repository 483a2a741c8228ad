// Behaviour as data: tests/golden/client/NAME.cmd is a command line, NAME.json what the collector answers,
// NAME.txt what is printed. A .cmd names its .json, since several commands may share an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/client/stub_collector.h"

namespace laggard::client {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A .cmd file: the words of "json", "terminal" (columns, perhaps "color"), "exit" and "run" lines.
struct Command {
  std::string json;
  Terminal terminal;
  int exit_code = 0;
  std::vector<std::string> arguments;
};

Command parse_command(const std::string& text) {
  Command command;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key, word;
    words >> key;
    if (key == "json") words >> command.json;
    if (key == "exit") words >> command.exit_code;
    if (key == "terminal") {
      command.terminal.present = true;
      words >> command.terminal.columns >> word;
      command.terminal.color = word == "color";
    }
    if (key == "run") {
      while (words >> word) {
        if (word.starts_with("{data}")) word.replace(0, 6, LAGGARD_TEST_DATA);
        command.arguments.push_back(word);
      }
    }
  }
  return command;
}

std::map<std::string, StubCollector::Answer> answers_of(const fs::path& path) {
  std::map<std::string, StubCollector::Answer> answers;
  const auto fixture = nlohmann::ordered_json::parse(read(path));
  for (const auto& [request, body] : fixture.items()) answers[request] = {200, body.dump()};
  return answers;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(LAGGARD_CLIENT_GOLDEN)) {
    if (entry.path().extension() == ".cmd") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, PrintsWhatIsExpected) {
  const fs::path folder = LAGGARD_CLIENT_GOLDEN;
  const Command command = parse_command(read(folder / (GetParam() + ".cmd")));
  const StubCollector collector(answers_of(folder / (command.json + ".json")));
  auto arguments = command.arguments;
  arguments.insert(arguments.begin(), {"--collector", collector.address()});
  const Outcome outcome = run_command(arguments, command.terminal);
  EXPECT_EQ(static_cast<int>(outcome.code), command.exit_code) << outcome.err;
  const fs::path expected = folder / (GetParam() + ".txt");
  if (std::getenv("LAGGARD_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(expected) << outcome.out;
    GTEST_SKIP() << "written anew: read the difference before you believe it";
  }
  EXPECT_EQ(outcome.out, read(expected));
}

INSTANTIATE_TEST_SUITE_P(Client, Golden, testing::ValuesIn(golden_names()),
                         [](const auto& golden) { return golden.param; });

}  // namespace
}  // namespace laggard::client
