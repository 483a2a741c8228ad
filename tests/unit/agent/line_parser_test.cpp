#include "agent/line_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/base/limits.h"
#include "daemon/base/value.h"

namespace laggard::agent {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<ParsedLine> parse(std::string_view line) {
  LineParser parser;
  std::vector<ParsedLine> out;
  parser.start(line);
  while (const ParsedLine* parsed = parser.next()) out.push_back(*parsed);
  return out;
}

ParsedLine one(std::string_view line) {
  const std::vector<ParsedLine> all = parse(line);
  if (all.size() == 1) return all[0];
  ADD_FAILURE() << all.size() << " outcomes of " << line.substr(0, 200);
  return {};
}

std::string reason_of(std::string_view line) {
  const ParsedLine parsed = one(line);
  const char* kind = parsed.kind == LineKind::foreign    ? "foreign: "
                     : parsed.kind == LineKind::rejected ? "rejected: "
                                                         : "record ";
  return kind + std::string(parsed.reason);
}

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream file(LAGGARD_TEST_DATA "/cases/" + name);
  EXPECT_TRUE(file) << name;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Outcomes of a case's file by kind and reason, blank lines under "blank".
std::map<std::string, int> tally(const std::string& name) {
  std::map<std::string, int> out;
  for (const std::string& line : lines_of(name)) {
    const std::vector<ParsedLine> all = parse(line);
    if (all.empty()) ++out["blank"];
    for (const ParsedLine& parsed : all) {
      switch (parsed.kind) {
        case LineKind::update:
          ++out["update"];
          break;
        case LineKind::config:
          ++out["config"];
          break;
        case LineKind::end:
          ++out["end"];
          break;
        case LineKind::foreign:
          ++out["foreign " + std::string(parsed.reason)];
          break;
        case LineKind::rejected:
          ++out["rejected " + std::string(parsed.reason)];
          break;
      }
    }
  }
  return out;
}

using Tally = std::map<std::string, int>;

TEST(LineParser, CasesFromTheFieldCountAsExpected) {
  EXPECT_EQ(tally("A04/mixed.jsonl"), (Tally{{"config", 2}, {"update", 6}}));
  EXPECT_EQ(tally("A05/tail_cut.jsonl"), (Tally{{"config", 1}, {"update", 8}, {"rejected torn record", 1}}));
  EXPECT_EQ(tally("A05/middle_cut.jsonl"),
            (Tally{{"config", 1}, {"update", 2}, {"rejected torn record", 1}}));
  EXPECT_EQ(
      tally("A05/non_object_lines.jsonl"),
      (Tally{
          {"config", 1}, {"update", 1}, {"rejected no object", 4}, {"rejected no type", 1}, {"blank", 1}}));
  EXPECT_EQ(tally("A07/exact_resend.jsonl"), (Tally{{"config", 1}, {"update", 4}}));
  EXPECT_EQ(tally("A10/pp.jsonl"), (Tally{{"config", 3}, {"update", 6}}));
  EXPECT_EQ(tally("A11/bad_times.jsonl"), (Tally{{"config", 2}, {"update", 8}}));
  EXPECT_EQ(tally("A13/acc.jsonl"), (Tally{{"config", 4}, {"update", 8}, {"foreign unknown type", 16}}));
  EXPECT_EQ(tally("A13/config_disagrees.jsonl"), (Tally{{"config", 1}, {"update", 1}}));
  EXPECT_EQ(tally("A14/forward_slow.jsonl"), (Tally{{"config", 4}, {"update", 12}}));
  EXPECT_EQ(tally("A19/names.jsonl"), (Tally{{"config", 1}, {"update", 1}}));
}

// Every number of a record against another reader's tree of the same line.
void expect_equal_to(const ParsedLine& parsed, const json& tree) {
  const RecordView record = parsed.view();
  const auto expect_doubles = [&](const char* key, const std::vector<std::string>& names,
                                  std::span<const double> numbers) {
    ASSERT_EQ(tree.value(key, json::object()).size(), names.size()) << key;
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(tree[key][names[i]].get<double>()),
                std::bit_cast<std::uint64_t>(numbers[i]))
          << key << " " << names[i];
  };
  const auto expect_ints = [&](const char* key, const std::vector<std::string>& names,
                               std::span<const std::int64_t> numbers) {
    ASSERT_EQ(tree.value(key, json::object()).size(), names.size()) << key;
    for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(tree[key][names[i]], numbers[i]);
  };
  EXPECT_EQ(tree["rank"], record.rank);
  EXPECT_EQ(tree["step"], record.step);
  EXPECT_EQ(tree["wall_ms"].get<double>(), record.wall_ms());
  expect_doubles("cuda_stream_ms", parsed.layout.stream, record.stream_ms());
  expect_doubles("cpu_call_ms", parsed.layout.host, record.host_ms());
  expect_ints("calls", parsed.layout.calls, record.calls());
  expect_ints("counts", parsed.layout.counts, record.counts());
  EXPECT_EQ(tree["sample_indices"].get<std::vector<std::int64_t>>(), parsed.sample_indices);
  ASSERT_THAT(parsed.rest.histograms, SizeIs(2));
  for (const Histogram& histogram : parsed.rest.histograms) {
    EXPECT_EQ(tree[histogram.name].size(), histogram.bins.size());
    for (const auto& [bin, count] : histogram.bins) EXPECT_EQ(tree[histogram.name][bin], count);
  }
  EXPECT_THAT(parsed.layout.values, ElementsAre("padding_fraction"));
  EXPECT_EQ(tree["padding_fraction"].get<double>(), record.values()[0]);
  EXPECT_EQ(parsed.rest.extra, "");
}

TEST(LineParser, EveryNumberOfARecordIsKeptBitForBit) {
  LineParser parser;  // one for all lines, as in the agent: nothing of a line may leak into the next
  int updates = 0;
  for (const char* file : {"A01/rank0.jsonl", "A10/pp.jsonl", "A14/forward_slow.jsonl", "A19/names.jsonl"}) {
    for (const std::string& line : lines_of(file)) {
      parser.start(line);
      const ParsedLine* parsed = parser.next();
      ASSERT_NE(parsed, nullptr);
      if (parsed->kind == LineKind::update) {
        expect_equal_to(*parsed, json::parse(line));
        ++updates;
      }
      EXPECT_EQ(parser.next(), nullptr);
    }
  }
  EXPECT_EQ(updates, 11 + 6 + 12 + 1);
}

TEST(LineParser, NamesStandInFileOrder) {
  const ParsedLine parsed =
      one(R"({"type":"update","rank":3,"step":7,"lr":0.5,"cpu_call_ms":{"z":1.5,"a":2.5},"wall_ms":9.25,)"
          R"("cuda_stream_ms":{"m":3.5},"calls":{"z":1},"counts":{"n":5},"epoch":2,"loss":0.125})");
  EXPECT_EQ(parsed.kind, LineKind::update);
  EXPECT_THAT(parsed.layout.host, ElementsAre("z", "a"));
  EXPECT_THAT(parsed.layout.values, ElementsAre("lr", "loss"));
  EXPECT_THAT(parsed.layout.int_values, ElementsAre("epoch"));
  EXPECT_THAT(parsed.doubles, ElementsAre(9.25, 3.5, 1.5, 2.5, 0.5, 0.125));
  EXPECT_THAT(parsed.ints, ElementsAre(1, 5, 2));
}

TEST(LineParser, OrderOfKeysDoesNotMatter) {
  const std::vector<std::string> lines = lines_of("A07/same_values_other_key_order.jsonl");
  const ParsedLine a = one(lines[1]), b = one(lines[2]);
  EXPECT_EQ(content_hash(a.view()), content_hash(b.view()));
}

ParsedLine update_with(const std::string& fields) {
  const ParsedLine parsed = one(R"({"type":"update","rank":0,"step":1,)" + fields + "}");
  EXPECT_EQ(parsed.kind, LineKind::update) << parsed.reason;
  return parsed;
}

TEST(LineParser, AbsentNullTextNegativeAndNonFiniteAreKeptApart) {
  const ParsedLine parsed = update_with(
      R"("cuda_stream_ms": {"n": null, "t": "not recorded", "m": -0.004, "z": 0.0, "nan": NaN, "inf": Infinity,)"
      R"( "ninf": -Infinity, "b": true})");
  const std::vector<ValueState> states = [&] {
    std::vector<ValueState> out;
    for (const double number : parsed.doubles) out.push_back(state_of(number));
    return out;
  }();
  using enum ValueState;
  EXPECT_THAT(states,
              ElementsAre(absent, null, text, negative, valid, non_finite, non_finite, non_finite, text));
  EXPECT_TRUE(std::isnan(parsed.doubles[5]));
  EXPECT_EQ(parsed.doubles[6], INFINITY);
  EXPECT_EQ(parsed.doubles[7], -INFINITY);
  EXPECT_EQ(parsed.rest.extra, R"({"cuda_stream_ms":{"b":true,"t":"not recorded"}})");
}

TEST(LineParser, NanInsideAStringStaysText) {
  const ParsedLine parsed = update_with(R"("padding": NaN, "note": "NaN, \"NaN, Infinity: NaN")");
  EXPECT_THAT(parsed.layout.values, ElementsAre("padding"));
  EXPECT_TRUE(std::isnan(parsed.doubles[1]));
  EXPECT_EQ(json::parse(parsed.rest.extra), (json{{"note", "NaN, \"NaN, Infinity: NaN"}}));
}

TEST(LineParser, UnknownThingsGoToExtraWithSortedKeys) {
  const ParsedLine parsed = update_with(
      R"("z":true,"host":"n1","big":123456789012345678901234567890,"u64":18446744073709551615,)"
      R"("mixed":{"b":1,"a":NaN},"list":[1,"x",null],"cuda_stream_ms":null,"calls":{"f":null,"g":2},)"
      R"("counts":{"n":1.5},"sample_indices":[1,2.5],"empty":{})");
  EXPECT_EQ(parsed.rest.extra,
            R"({"big":"123456789012345678901234567890","calls":{"f":null},"counts":{"n":1.5},)"
            R"("cuda_stream_ms":null,"host":"n1","list":[1,"x",null],"mixed":{"a":"NaN","b":1},)"
            R"("sample_indices":[1,2.5],"u64":18446744073709551615,"z":true})");
  EXPECT_THAT(parsed.layout.calls, ElementsAre("g"));
  EXPECT_THAT(parsed.sample_indices, IsEmpty());
  EXPECT_THAT(parsed.rest.histograms, ElementsAre(Histogram{"empty", {}}));
}

TEST(LineParser, IntegersAsTimesAreExactOrText) {
  const ParsedLine parsed = update_with(R"("wall_ms":9007199254740993,"cpu_call_ms":{"a":9007199254740992})");
  EXPECT_EQ(state_of(parsed.doubles[0]), ValueState::text);
  EXPECT_EQ(parsed.rest.extra, R"({"wall_ms":9007199254740993})");
  EXPECT_EQ(parsed.doubles[1], 9007199254740992.0);
}

TEST(LineParser, TagsAreTexts) {
  EXPECT_THAT(update_with(R"("tags":["checkpoint","eval"])").rest.tags, ElementsAre("checkpoint", "eval"));
  EXPECT_EQ(update_with(R"("tags":["eval",1])").rest.extra, R"({"tags":["eval",1]})");
}

TEST(LineParser, OfARepeatedKeyTheLastOneWins) {
  const ParsedLine parsed = update_with(
      R"("counts":{"a":1,"b":2,"a":3},"wall_ms":1.0,"cuda_stream_ms":{"x":1.0},"wall_ms":2.0,)"
      R"("cuda_stream_ms":{"y":null,"y":4.0},"h":{"k":1,"k":2},"calls":{"f":null,"f":6},"loss":"x","loss":0.5)");
  EXPECT_THAT(parsed.layout.counts, ElementsAre("b", "a"));
  EXPECT_THAT(parsed.layout.stream, ElementsAre("y"));
  EXPECT_THAT(parsed.doubles, ElementsAre(2.0, 4.0, 0.5));
  EXPECT_THAT(parsed.ints, ElementsAre(6, 2, 3));
  EXPECT_THAT(parsed.rest.histograms, ElementsAre(Histogram{"h", {{"k", 2}}}));
  EXPECT_EQ(parsed.rest.extra, "");
}

TEST(LineParser, OfAKeyRepeatedWithinRepeatedObjectsTheLastOneWins) {
  const ParsedLine parsed =
      update_with(R"("calls":{"a":1,"a":2},"calls":{"a":3,"a":4},"cpu_call_ms":{"x":1.0,"x":2.0},)"
                  R"("cpu_call_ms":{"x":3.0,"x":4.5},"h":{"k":1,"k":2},"g":{"k":3,"k":4},"h":{"k":5,"k":6})");
  EXPECT_THAT(parsed.layout.calls, ElementsAre("a"));
  EXPECT_THAT(parsed.layout.host, ElementsAre("x"));
  EXPECT_THAT(parsed.ints, ElementsAre(4));
  EXPECT_THAT(parsed.doubles, testing::Contains(4.5));
  EXPECT_THAT(parsed.rest.histograms, ElementsAre(Histogram{"g", {{"k", 4}}}, Histogram{"h", {{"k", 6}}}));
}

TEST(LineParser, LayoutVersionChangesWithTheLayout) {
  const std::string head = R"({"type":"update","rank":0,"step":1,"cuda_stream_ms":)";
  LineParser parser;
  const auto version_of = [&](const std::string& line) {
    parser.start(line);
    return parser.next()->layout_version;
  };
  const std::uint64_t first = version_of(head + R"({"a":1.0}})");
  EXPECT_EQ(version_of(head + R"({"a":2.0}})"), first);
  // The earlier of the two objects brings the new name, the later repeats it.
  const std::uint64_t second = version_of(head + R"({"b":1.0},"cuda_stream_ms":{"b":2.0}})");
  EXPECT_NE(second, first);
  EXPECT_NE(version_of(head + R"({"a":1.0}})"), second);
}

TEST(LineParser, ConfigKeepsItsWholeLine) {
  const ParsedLine parsed = one(
      R"({"type":"config","world_size":4,"rank":2,"attempt":3,"seed":18446744073709551615,"lr":NaN,"a":[1]})");
  EXPECT_EQ(parsed.kind, LineKind::config);
  EXPECT_EQ(parsed.rank, 2u);
  EXPECT_EQ(parsed.world_size, 4u);
  EXPECT_EQ(parsed.attempt, 3u);
  EXPECT_EQ(parsed.settings, R"({"a":[1],"attempt":3,"lr":"NaN","rank":2,"seed":18446744073709551615,)"
                             R"("type":"config","world_size":4})");
  const ParsedLine bare = one(R"({"type":"config","rank":0,"world_size":-1,"attempt":0})");
  EXPECT_EQ(bare.world_size, 0u);
  EXPECT_EQ(bare.attempt, std::nullopt);
}

TEST(LineParser, RecordStandsBetweenPipesBehindPrefixesAndBesideText) {
  const std::string record = R"({"type":"end","rank":5})";
  for (const std::string& line : {"| " + record + " |", "[rank0]: " + record, "0: " + record + "\r",
                                  record + " took 3 s", "{x} " + record, "\t" + record + "  ",
                                  std::string(5, '\0') + record, "it's [1] {\"loss\": 2} " + record}) {
    const ParsedLine parsed = one(line);
    EXPECT_EQ(parsed.kind, LineKind::end) << line;
    EXPECT_EQ(parsed.rank, 5u);
  }
}

TEST(LineParser, TornRecordGluedToAGoodOneIsALineOfItsOwn) {
  const std::string good =
      R"({"type": "update", "rank": 1, "step": 2, "counts": {"n": 1}, "note": "a}\"{b"})";
  const std::string torn = R"({"type": "update", "rank": 1, "step": 1, "counts": {"n": 1, "m": 2}, "cpu_c)";
  for (const std::string& line : {torn + good, torn.substr(0, 40) + good}) {
    const std::vector<ParsedLine> all = parse(line);
    ASSERT_THAT(all, SizeIs(2)) << line;
    EXPECT_EQ(all[0].kind, LineKind::rejected);
    EXPECT_EQ(all[0].reason, "torn record");
    EXPECT_EQ(all[1].kind, LineKind::update);
    EXPECT_EQ(all[1].step, 2);
  }
  const std::vector<ParsedLine> both = parse(good + good + torn);
  ASSERT_THAT(both, SizeIs(3));
  EXPECT_EQ(both[0].kind, LineKind::update);
  EXPECT_EQ(both[1].kind, LineKind::update);
  EXPECT_EQ(both[2].kind, LineKind::rejected);
}

TEST(LineParser, WhatIsNoRecordSaysWhy) {
  EXPECT_THAT(parse(""), IsEmpty());
  EXPECT_THAT(parse(" \r"), IsEmpty());
  EXPECT_THAT(parse("||"), IsEmpty());
  EXPECT_EQ(reason_of("step 3 done"), "foreign: no record");
  EXPECT_EQ(reason_of("{'loss': 3}"), "foreign: no record");
  EXPECT_EQ(reason_of("[rank0]: hello"), "foreign: no record");
  EXPECT_EQ(reason_of("[rank0]: {\"loss\": 3}"), "foreign: no record");
  EXPECT_EQ(reason_of("[1, 2]"), "rejected: no object");
  EXPECT_EQ(reason_of("{\"loss\": 3}"), "rejected: no type");
  EXPECT_EQ(reason_of("{\"type\": 3}"), "rejected: no type");
  EXPECT_EQ(reason_of("{\"type\": \"micro\", \"rank\": 0}"), "foreign: unknown type");
  EXPECT_EQ(reason_of("{\"type\": \"micro\", \"rank\": 0"), "rejected: torn record");
  EXPECT_EQ(reason_of(R"({"type":"update","step":1})"), "rejected: no rank");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0})"), "rejected: no step");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":1000000,"step":1})"), "rejected: rank out of range");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":-1})"), "rejected: step out of range");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":9.0})"), "rejected: step is no integer");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":"9"})"), "rejected: step is no integer");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":null})"), "rejected: step is no integer");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":[9]})"), "rejected: step is no integer");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":NaN,"step":9})"), "rejected: rank is no integer");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":9e0})"), "rejected: step is no integer");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":99999999999999999999 })"),
            "rejected: step out of range");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":01})"), "rejected: torn record");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":9223372036854775808})"),
            "rejected: step out of range");
  EXPECT_EQ(reason_of(R"({"type":"config","world_size":2})"), "rejected: no rank");
  EXPECT_EQ(reason_of(R"({"type":"end","rank":-1})"), "rejected: rank out of range");
  EXPECT_EQ(reason_of(R"({"type":"end","rank":99999999999999999999})"), "rejected: rank out of range");
  EXPECT_EQ(reason_of(R"({"type":"end","rank":1.0})"), "rejected: rank is no integer");
  EXPECT_EQ(reason_of(R"({"type":"config","rank":"1"})"), "rejected: rank is no integer");
  EXPECT_EQ(reason_of("{\"type\":\"update\",\"rank\":0,\"step\":1,\"n\":\"\xff\"}"),
            "rejected: invalid UTF-8");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":1,"n":NaN5})"), "rejected: torn record");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":1,"n":1NaN})"), "rejected: torn record");
  EXPECT_EQ(reason_of(R"({"type":"update","rank":0,"step":1,"n":01})"), "rejected: torn record");
}

TEST(LineParser, ANumberThatNoDoubleHoldsIsNoTornRecord) {
  const std::string head = R"({"type":"update","rank":0,"step":1,)";
  for (const char* number : {"1e999", "-1e999", "1.5E+400", "123.0e4000"})
    for (const std::string& fields :
         {std::string("\"wall_ms\":") + number, std::string("\"loss\":") + number,
          std::string(R"("cuda_stream_ms":{"a":)") + number + "}",
          std::string(R"("counts":{"a":)") + number + "}", std::string(R"("h":{"1":2,"a":)") + number + "}",
          std::string(R"("sample_indices":[1,)") + number + "]",
          std::string(R"("list":[{"a":)") + number + "}]"})
      EXPECT_EQ(reason_of(head + fields + "}"), "rejected: number out of range") << fields;
  EXPECT_EQ(reason_of(R"({"type":"config","rank":0,"lr":1e999})"), "rejected: number out of range");
  EXPECT_EQ(reason_of(head + R"("wall_ms":1e-999})"), "record ");
  EXPECT_EQ(reason_of(head + R"("wall_ms":1e308})"), "record ");
  for (const char* number : {"1e", "1.e5", "1e+", ".5e999", "01e999", "1e99x", "--1e999"})
    EXPECT_EQ(reason_of(head + "\"loss\":" + number + "}"), "rejected: torn record") << number;
}

TEST(LineParser, WhatFollowsARefusedNumberIsRead) {
  LineParser parser;
  parser.start(R"({"type":"update","rank":0,"step":1,"wall_ms":1e999,"loss":2.5})");
  EXPECT_EQ(parser.next()->reason, "number out of range");
  EXPECT_EQ(parser.next(), nullptr);
  parser.start(R"({"type":"update","rank":0,"step":2,"wall_ms":7.5})");
  const ParsedLine* next = parser.next();
  EXPECT_EQ(next->kind, LineKind::update);
  EXPECT_EQ(next->reason, "");
  EXPECT_EQ(next->view().wall_ms(), 7.5);
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(LineParser, BoundsHold) {
  const std::string head = R"({"type":"update","rank":0,"step":1,)";
  const auto object = [&](const char* key, std::size_t names) {
    std::string out = head + "\"" + key + "\":{";
    for (std::size_t i = 0; i < names; ++i) out += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
    return out + "}}";
  };
  EXPECT_EQ(reason_of(object("counts", limits::kMaxNamesPerRecord)), "record ");
  EXPECT_EQ(reason_of(object("counts", limits::kMaxNamesPerRecord + 1)), "rejected: too many names");
  EXPECT_EQ(reason_of(object("h", limits::kMaxHistogramBins)), "record ");
  EXPECT_EQ(reason_of(object("h", limits::kMaxHistogramBins + 1)), "rejected: too many histogram bins");
  EXPECT_EQ(reason_of(head + "\"" + std::string(limits::kMaxNameBytes + 1, 'n') + "\":1}"),
            "rejected: name too long");
  EXPECT_EQ(reason_of(head + "\"x\":\"" + std::string(limits::kMaxExtraBytes, 'n') + "\"}"),
            "rejected: too many unknown keys");
  EXPECT_EQ(reason_of(head + "\"sample_indices\":[1" + repeated(",1", limits::kMaxSampleIndices) + "]}"),
            "rejected: too many sample indices");
  EXPECT_EQ(
      reason_of(R"({"type":"config","rank":0,"x":")" + std::string(limits::kMaxSettingsBytes, 'n') + "\"}"),
      "rejected: too many settings");
}

TEST(LineParser, DeepNestingDoesNotCrash) {
  const std::size_t depth = limits::kMaxLineBytes / 4;
  for (const char* head :
       {R"({"type":"update","rank":0,"step":1,"x":)", R"({"type":"config","rank":0,"x":)"}) {
    EXPECT_THAT(reason_of(head + repeated("[", 100) + repeated("]", 100) + "}"),
                "rejected: nested too deeply");
    EXPECT_EQ(parse(head + repeated("[", depth) + repeated("]", depth) + "}").size(), 1u);
    EXPECT_EQ(parse(head + repeated("{\"a\":", 50'000) + "1" + repeated("}", 50'000) + "}").size(), 1u);
  }
  EXPECT_EQ(reason_of(repeated("[", depth) + repeated("]", depth)), "rejected: no object");
  EXPECT_EQ(parse(repeated("{", depth)).size(), 1u);
  EXPECT_EQ(parse(repeated("}", depth)).size(), 1u);
}

// Every prefix of a record and every record with one byte changed is read without harm, and never as another
// record: what is cut off is no record.
TEST(LineParser, EveryCutOfARecordIsNoRecord) {
  const std::string line = lines_of("A11/bad_times.jsonl")[9];
  LineParser parser;
  for (std::size_t size = 1; size < line.size(); ++size) {
    parser.start(std::string_view(line).substr(0, size));
    const ParsedLine* parsed = parser.next();
    ASSERT_NE(parsed, nullptr);
    EXPECT_GE(parsed->kind, LineKind::foreign) << size;
  }
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (const char byte : {'{', '}', '"', '\\', ',', '\0', '[', '-', '\x80'}) {
      std::string changed = line;
      changed[i] = byte;
      parser.start(changed);
      int outcomes = 0;
      while (parser.next() != nullptr) ++outcomes;
      EXPECT_GE(outcomes, 1);
    }
  }
}

}  // namespace
}  // namespace laggard::agent
