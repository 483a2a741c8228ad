#include "daemon/core/model.h"

#include <gtest/gtest.h>

namespace laggard::core {
namespace {

TEST(BuiltInKind, KnowsCommonNames) {
  for (const char* name : {"backward_and_communication", "grads-reduce-scatter", "all_reduce",
                           "params-all-gather", "recv_forward", "forward-send", "barrier", "nccl_allreduce"})
    EXPECT_EQ(built_in_kind(name), StageKind::sync) << name;
  for (const char* name : {"checkpoint_save", "checkpointing", "eval", "evaluation", "logging", "Eval step"})
    EXPECT_EQ(built_in_kind(name), StageKind::aside) << name;
  for (const char* name : {"batch_fetch_and_count", "data", "prepare_inputs"})
    EXPECT_EQ(built_in_kind(name), StageKind::input) << name;
  for (const char* name :
       {"forward", "backward", "optimizer", "deepspeed_step", "medieval", "command", "metadata"})
    EXPECT_EQ(built_in_kind(name), std::nullopt) << name;
}

TEST(StageTable, NestsAndOrders) {
  StageTable stages;
  const StageId inner = stages.intern("inner"), leaf = stages.intern("leaf"), other = stages.intern("other"),
                outer = stages.intern("outer");
  EXPECT_TRUE(stages.set_parent(inner, outer, Knowledge::records));
  EXPECT_TRUE(stages.set_parent(leaf, inner, Knowledge::records));
  EXPECT_EQ(stages.depth(leaf), 2);
  EXPECT_EQ(stages.tree_order(), (std::vector<StageId>{other, outer, inner, leaf}));
  EXPECT_TRUE(stages.has_children(outer));
  EXPECT_FALSE(stages.has_children(other));
}

TEST(StageTable, RefusesCircles) {
  StageTable stages;
  const StageId a = stages.intern("a"), b = stages.intern("b"), c = stages.intern("c");
  EXPECT_TRUE(stages.set_parent(b, a, Knowledge::records));
  EXPECT_TRUE(stages.set_parent(c, b, Knowledge::records));
  EXPECT_FALSE(stages.set_parent(a, c, Knowledge::records));
  EXPECT_FALSE(stages.set_parent(a, a, Knowledge::profile));
  EXPECT_EQ(stages[a].parent, kNoStage);
}

TEST(StageTable, WeakerKnowledgeNeverReplacesStronger) {
  StageTable stages;
  const StageId id = stages.intern("all_reduce");
  EXPECT_EQ(stages[id].kind_from, Knowledge::built_in);
  stages.set_kind(id, StageKind::work, Knowledge::profile);
  stages.set_kind(id, StageKind::input, Knowledge::records);
  EXPECT_EQ(stages[id].kind, StageKind::work);
}

TEST(StageTable, IsBounded) {
  StageTable stages;
  for (int i = 0; i < 512; ++i) EXPECT_NE(stages.intern("s" + std::to_string(i)), kNoStage);
  EXPECT_EQ(stages.intern("one more"), kNoStage);
  EXPECT_EQ(stages.intern("s7"), 7);
}

}  // namespace
}  // namespace laggard::core
