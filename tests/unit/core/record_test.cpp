#include "daemon/base/record.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "daemon/base/value.h"
#include "proto/codec.h"
#include "tests/support/records.h"

namespace laggard {
namespace {

using test::TestRecord;

std::uint64_t hash_of(const TestRecord& record) {
  LayoutTable layouts;
  PackedRecords packed;
  record.pack(layouts, packed);
  return content_hash(packed.view(0, layouts[0]));
}

TEST(Value, TellsEveryStateApart) {
  EXPECT_EQ(state_of(0.0), ValueState::valid);
  EXPECT_EQ(state_of(-0.0), ValueState::valid);
  EXPECT_EQ(state_of(std::numeric_limits<double>::denorm_min()), ValueState::valid);
  EXPECT_EQ(state_of(std::numeric_limits<double>::max()), ValueState::valid);
  EXPECT_EQ(state_of(-0.004), ValueState::negative);
  EXPECT_EQ(state_of(std::numeric_limits<double>::lowest()), ValueState::negative);
  EXPECT_EQ(state_of(std::numeric_limits<double>::infinity()), ValueState::non_finite);
  EXPECT_EQ(state_of(-std::numeric_limits<double>::infinity()), ValueState::non_finite);
  EXPECT_EQ(state_of(std::numeric_limits<double>::quiet_NaN()), ValueState::non_finite);
  EXPECT_EQ(state_of(-std::numeric_limits<double>::quiet_NaN()), ValueState::non_finite);
  EXPECT_EQ(state_of(kAbsent), ValueState::absent);
  EXPECT_EQ(state_of(kNull), ValueState::null);
  EXPECT_EQ(state_of(kText), ValueState::text);
  EXPECT_TRUE(is_invalid(-1.0) && is_invalid(kText));
  EXPECT_FALSE(is_invalid(kNull) || is_invalid(kAbsent) || is_invalid(0.0));
}

TEST(ContentHash, DoesNotDependOnTheOrderOfKeys) {
  TestRecord a{.rank = 0, .step = 1, .wall_ms = 5, .stream = {{"forward", 1}, {"backward", 2}}};
  TestRecord b = a;
  std::swap(b.stream[0], b.stream[1]);
  EXPECT_EQ(hash_of(a), hash_of(b));
  std::swap(b.stream[0].second, b.stream[1].second);  // the numbers go to the other names
  EXPECT_NE(hash_of(a), hash_of(b));
}

TEST(ContentHash, SeesEveryPartOfARecord) {
  const TestRecord base{.rank = 0,
                        .step = 1,
                        .wall_ms = 5,
                        .stream = {{"f", 1}},
                        .host = {{"f", 1}},
                        .counts = {{"n", 3}},
                        .samples = {7, 8}};
  std::vector<TestRecord> others(8, base);
  others[0].wall_ms = 6;
  others[1].stream[0].second = kNull;
  others[2].host[0].second = std::numeric_limits<double>::quiet_NaN();
  others[3].counts[0].second = 4;
  others[4].samples = {8, 7};
  others[5].rest.tags = {"eval"};
  others[6].rest.histograms = {{"h", {{"9", 2}}}};
  others[7].rest.extra = R"({"note":"x"})";
  for (const TestRecord& other : others) EXPECT_NE(hash_of(base), hash_of(other));
}

TEST(PackedRecords, BlockKeepsEveryBit) {
  const TestRecord record{
      .rank = 1030,
      .step = 9,
      .wall_ms = 0.1 + 0.2,
      .stream = {{"a", kNull}, {"b", kText}, {"c", -0.0}, {"d", std::numeric_limits<double>::quiet_NaN()}},
      .host = {{"a", -std::numeric_limits<double>::infinity()}},
      .counts = {{"n", std::numeric_limits<std::int64_t>::min()}},
      .samples = {std::numeric_limits<std::int64_t>::max(), -1},
      .rest = {.histograms = {{"h", {{"(8, 3154)", 1}}}}, .tags = {"eval"}, .extra = "{}"}};
  LayoutTable layouts;
  PackedRecords packed, back;
  record.pack(layouts, packed);
  const auto layout_of = [&](LayoutId id) { return layouts.find(id); };
  ASSERT_EQ(codec::decode_block(codec::BlockEncoder().encode(packed), 9, layout_of, &back), std::nullopt);
  ASSERT_EQ(back.size(), 1U);
  const RecordView a = packed.view(0, layouts[0]), b = back.view(0, layouts[0]);
  EXPECT_EQ(b.step, 9);
  EXPECT_EQ(b.rank, 1030U);
  for (std::size_t i = 0; i < a.doubles.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.doubles[i]), std::bit_cast<std::uint64_t>(b.doubles[i])) << i;
  EXPECT_EQ(content_hash(a), content_hash(b));
  EXPECT_EQ(*a.rest, *b.rest);
}

TEST(PackedRecords, RefusesColumnsThatDoNotFit) {
  LayoutTable layouts;
  PackedRecords packed;
  TestRecord{.rank = 0, .step = 1, .wall_ms = 5, .stream = {{"f", 1}}, .samples = {1, 2}}.pack(layouts,
                                                                                               packed);
  const auto layout_of = [&](LayoutId id) { return layouts.find(id); };
  const auto refused = [&](auto spoil) {
    PackedRecords::Columns columns = packed.columns();
    spoil(columns);
    PackedRecords out;
    return out.assign(std::move(columns), layout_of).has_value() && out.empty();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& c) { c.doubles.pop_back(); }));
  EXPECT_TRUE(refused([](auto& c) { c.doubles.push_back(1); }));
  EXPECT_TRUE(refused([](auto& c) { c.ints.push_back(1); }));
  EXPECT_TRUE(refused([](auto& c) { c.layouts[0] = 9; }));
  EXPECT_TRUE(refused([](auto& c) { c.sample_counts[0] = 0xffffffff; }));
  EXPECT_TRUE(refused([](auto& c) { c.steps.clear(); }));
  EXPECT_TRUE(refused([](auto& c) { c.rest_of.push_back(0); }));
  EXPECT_TRUE(refused([](auto& c) {
    c.rest_of.push_back(5);  // of a record that is not there
    c.rests.emplace_back();
  }));
}

}  // namespace
}  // namespace laggard
