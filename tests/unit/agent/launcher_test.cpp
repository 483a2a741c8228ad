#include "agent/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "daemon/base/limits.h"

namespace laggard::agent {
namespace {

using Environment = std::map<std::string, std::string>;

Launch launch_of(const Environment& environment) {
  return read_launch([&](const std::string& name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  });
}

// "launcher rank/world size" or "launcher rank/world size on local rank"; "" for a process of its own.
std::string place_of(const Environment& environment) {
  const Launch launch = launch_of(environment);
  if (!launch.rank.has_value()) return launch.launcher;
  std::string out = launch.launcher + " " + std::to_string(launch.rank->value) + "/" +
                    std::to_string(launch.world_size->value);
  if (launch.local_rank.has_value()) out += " on " + std::to_string(launch.local_rank->value);
  return out;
}

const Environment kTorch{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}};
const Environment kJsm{
    {"JSM_NAMESPACE_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "20"}, {"JSM_NAMESPACE_LOCAL_RANK", "1"}};
const Environment kPals{
    {"PALS_RANKID", "2"}, {"PALS_LOCAL_RANKID", "0"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "6"}};
const Environment kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}};
const Environment kMvapich{
    {"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_LOCAL_RANK", "0"}};
const Environment kHydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}};
const Environment kFlux{{"FLUX_TASK_RANK", "7"}, {"FLUX_JOB_SIZE", "16"}, {"FLUX_TASK_LOCAL_ID", "3"}};
const Environment kSlurm{{"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "9"},
                         {"SLURM_NTASKS", "12"},
                         {"SLURM_LOCALID", "1"}};

std::string start_of(const Environment& environment) {
  const Launch launch = launch_of(environment);
  return launch.launch.has_value() ? launch.launch->value : "";
}

Environment together(std::initializer_list<Environment> parts) {
  Environment out;
  for (const Environment& part : parts) out.insert(part.begin(), part.end());
  return out;
}

TEST(Launcher, EachOneAlone) {
  EXPECT_EQ(place_of({}), "");
  EXPECT_EQ(place_of(kTorch), "torchrun 5/8 on 1");
  EXPECT_EQ(place_of(kJsm), "JSM 1/20 on 1");
  EXPECT_EQ(place_of(kPals), "PALS 2/6 on 0");
  EXPECT_EQ(place_of(kOpenMpi), "Open MPI 3/4 on 3");
  EXPECT_EQ(place_of(kMvapich), "MVAPICH2 0/2 on 0");
  EXPECT_EQ(place_of(kHydra), "Hydra 1/2 on 1");
  EXPECT_EQ(place_of(kFlux), "Flux 7/16 on 3");
  EXPECT_EQ(place_of(kSlurm), "Slurm 9/12 on 1");
}

TEST(Launcher, TheEarlierOneOfTwo) {
  const std::vector<std::pair<std::string, Environment>> order{
      {"torchrun", kTorch},   {"JSM", kJsm},     {"PALS", kPals}, {"Open MPI", kOpenMpi},
      {"MVAPICH2", kMvapich}, {"Hydra", kHydra}, {"Flux", kFlux}, {"Slurm", kSlurm}};
  for (std::size_t first = 0; first < order.size(); ++first)
    for (std::size_t second = first + 1; second < order.size(); ++second) {
      const Launch launch = launch_of(together({order[first].second, order[second].second}));
      EXPECT_EQ(launch.launcher, order[first].first) << "beside " << order[second].first;
    }
}

TEST(Launcher, TheVariablesAreNamed) {
  const Launch launch = launch_of(kPals);
  EXPECT_EQ(launch.rank->variable, "PALS_RANKID");
  EXPECT_EQ(launch.world_size->variable, "PMI_SIZE");
  EXPECT_EQ(launch.local_rank->variable, "PALS_LOCAL_RANKID");
  EXPECT_THAT(launch.remarks, testing::IsEmpty()) << "PMI says the same";
}

TEST(Launcher, WhatDisagreesIsSaid) {
  // One task a node, each of which starts torchrun.
  const Launch launch = launch_of(together({kTorch, kSlurm}));
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_THAT(launch.remarks,
              testing::ElementsAre("Slurm disagrees: SLURM_PROCID=9 of SLURM_NTASKS=12, but first comes "
                                   "RANK=5 of WORLD_SIZE=8"));
}

TEST(Launcher, WhatIsNotWholeIsNotTaken) {
  const std::vector<std::tuple<Environment, std::string, std::string>> cases{
      {{{"RANK", "3"}}, "", "RANK=3 is not taken"},
      {{{"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}}, "", "WORLD_SIZE=3 is not taken"},
      {{{"LOCAL_RANK", "0"}}, "", ""},
      {together({{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, kOpenMpi}), "Open MPI 3/4 on 3",
       "RANK=0 of WORLD_SIZE=2 is not taken"},
      {{{"PMI_RANK", "0"}}, "", "PMI_SIZE is not set"},
      {{{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}, "", "PMI_RANK=x is not taken"},
      {{{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}, "", "PMI_RANK=-1 is not taken"},
      {{{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}, "", "there is no such rank"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}, "", "there is no such rank"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "4000000000"}}, "", "there is no such rank"},
      {{{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}}, "Flux 1/2", ""},
      {{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}}, "Slurm 3/8", ""},
      {{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}}, "Slurm 3/4", ""},
  };
  for (const auto& [environment, place, remark] : cases) {
    EXPECT_EQ(place_of(environment), place) << remark;
    const std::vector<std::string> remarks = launch_of(environment).remarks;
    if (remark.empty())
      EXPECT_THAT(remarks, testing::IsEmpty());
    else
      EXPECT_THAT(remarks, testing::Contains(testing::HasSubstr(remark)));
  }
}

TEST(Launcher, OneOfSeveralIsNotTheOnlyOne) {
  const std::vector<std::pair<Environment, std::string>> cases{
      {{}, ""},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, ""},
      {{{"WORLD_SIZE", "1"}}, ""},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4"}}, "RANK=0 of WORLD_SIZE=4 is not taken"},
      {{{"RANK", "0"}}, "RANK=0 is not taken"},
      {{{"WORLD_SIZE", "4"}}, "WORLD_SIZE=4 is not taken"},
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}, "there is no such rank"},
      {{{"PMI_RANK", "0"}}, "PMI_SIZE is not set"},
      {{{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}, "PMI_RANK=x is not taken"},
      {{{"LOCAL_RANK", "0"}}, ""},
      {{{"LOCAL_RANK", "1"}}, "LOCAL_RANK=1 is not taken"},
      {{{"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}}, "WORLD_SIZE=2 is not taken"},
      {{{"TORCHELASTIC_RESTART_COUNT", "often"}}, ""},
      {together({{{"RANK", "0"}, {"WORLD_SIZE", "4"}}, {{"LAGGARD_WORLD_SIZE", "1"}}}), ""},
      {together({{{"RANK", "0"}, {"WORLD_SIZE", "4"}}, kOpenMpi}), ""},
      {together({{{"RANK", "0"}, {"WORLD_SIZE", "4"}}, {{"LAGGARD_RANK", "1"}}}), ""},
      {{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, ""},  // the batch script is one
  };
  for (const auto& [environment, sentence] : cases) {
    const std::string unclear = launch_of(environment).unclear.value_or("");
    EXPECT_EQ(unclear.empty(), sentence.empty()) << unclear;
    EXPECT_THAT(unclear, testing::HasSubstr(sentence));
  }
}

TEST(Launcher, TheBatchScriptIsNoTask) {
  Environment batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  batch["SLURM_PROCID"] = "0";
  EXPECT_EQ(place_of(batch), "");
  EXPECT_THAT(launch_of(batch).remarks, testing::ElementsAre(testing::HasSubstr("batch script")));
  EXPECT_EQ(launch_of(batch).run, launch_of(kSlurm).run);
  EXPECT_EQ(place_of(together({kTorch, batch})), "torchrun 5/8 on 1");
}

TEST(Launcher, WhatIsSaidForLaggardComesFirst) {
  Launch launch = launch_of(together({{{"LAGGARD_RANK", "5"}, {"LAGGARD_WORLD_SIZE", "8"}}, kTorch, kHydra}));
  EXPECT_EQ(launch.rank, (Found<Rank>{5, "LAGGARD_RANK"}));
  EXPECT_EQ(launch.world_size, (Found<std::uint32_t>{8, "LAGGARD_WORLD_SIZE"}));
  EXPECT_THAT(launch.remarks,
              testing::ElementsAre("Hydra disagrees: PMI_RANK=1 of PMI_SIZE=2, but first comes "
                                   "LAGGARD_RANK=5 of LAGGARD_WORLD_SIZE=8"));
  launch = launch_of(
      together({{{"LAGGARD_RANK", "6"}, {"LAGGARD_ATTEMPT", "3"}, {"LAGGARD_RUN", "mine"}}, kTorch}));
  EXPECT_EQ(launch.rank->value, 6u);
  EXPECT_FALSE(launch.world_size.has_value()) << "not one of each";
  EXPECT_EQ(launch.attempt->value, 3u);
  EXPECT_EQ(launch.run->value, "mine");
  launch = launch_of(together({{{"LAGGARD_WORLD_SIZE", "16"}}, kTorch}));
  EXPECT_EQ(launch.rank->variable, "RANK");
  EXPECT_EQ(launch.world_size->value, 16u);
  launch = launch_of({{"LAGGARD_RANK", "-1"}, {"LAGGARD_ATTEMPT", "0"}});
  EXPECT_THAT(launch.wrong,
              testing::ElementsAre(testing::StartsWith("LAGGARD_RANK=-1: it is a number from 0"),
                                   testing::StartsWith("LAGGARD_ATTEMPT=0")));
}

TEST(Launcher, Restarts) {
  const std::vector<std::tuple<Environment, std::optional<std::uint32_t>, std::string>> cases{
      {{}, std::nullopt, ""},
      {{{"TORCHELASTIC_RESTART_COUNT", "0"}}, 0, "TORCHELASTIC_RESTART_COUNT"},
      {{{"TORCHELASTIC_RESTART_COUNT", "2"}}, 2, "TORCHELASTIC_RESTART_COUNT"},
      {{{"SLURM_RESTART_COUNT", "1"}}, 1, "SLURM_RESTART_COUNT"},
      {{{"TORCHELASTIC_RESTART_COUNT", "2"}, {"SLURM_RESTART_COUNT", "0"}}, 2, "TORCHELASTIC_RESTART_COUNT"},
      {{{"TORCHELASTIC_RESTART_COUNT", "2"}, {"SLURM_RESTART_COUNT", "1"}},
       102,
       "100 x SLURM_RESTART_COUNT + TORCHELASTIC_RESTART_COUNT"},
      {{{"SLURM_RESTART_COUNT", "often"}}, std::nullopt, ""},
  };
  for (const auto& [environment, restarts, variable] : cases) {
    const auto found = launch_of(environment).restarts;
    ASSERT_EQ(found.has_value(), restarts.has_value());
    if (!found.has_value()) continue;
    EXPECT_EQ(found->value, *restarts);
    EXPECT_EQ(found->variable, variable);
  }
}

TEST(Launcher, ANameForTheRun) {
  const auto run_of = [](const Environment& environment) {
    const auto run = launch_of(environment).run;
    return run.has_value() ? run->value : "";
  };
  EXPECT_EQ(run_of({}), "");
  EXPECT_EQ(run_of({{"TORCHELASTIC_RUN_ID", "none"}}), "");
  EXPECT_EQ(run_of({{"TORCHELASTIC_RUN_ID", "llm7"}, {"SLURM_JOB_ID", "77"}}), "llm7");
  EXPECT_EQ(run_of({{"TORCHELASTIC_RUN_ID", "none"}, {"SLURM_JOB_ID", "77"}}), "job-77");
  EXPECT_EQ(run_of({{"SLURM_JOB_NAME", "llm"}, {"SLURM_JOB_ID", "77"}}), "llm-77");
  EXPECT_EQ(run_of({{"SLURM_JOB_NAME", "llm"}}), "");
  EXPECT_EQ(run_of({{"PBS_JOBNAME", "llm"}, {"PBS_JOBID", "5.pbs"}}), "llm-5.pbs");
  EXPECT_EQ(run_of({{"LSB_JOBID", "5"}}), "job-5");
  EXPECT_EQ(run_of({{"FLUX_JOB_ID", "f3Rt"}}), "f3Rt");
}

TEST(Launcher, NamesThatNoRunCanHave) {
  for (const std::string& name : {std::string("llm"), std::string("a b/c:[1]"), std::string("l\xc3\xa4uft"),
                                  std::string(limits::kMaxRunNameBytes, 'x')})
    EXPECT_EQ(bad_run_name(name), std::nullopt) << name;
  for (const std::string& name :
       {std::string(), std::string("llm@2"), std::string("http://host:29400@x"), std::string("a\nb"),
        std::string("a\x7f"), std::string("\xff"), std::string(limits::kMaxRunNameBytes + 1, 'x')})
    EXPECT_NE(bad_run_name(name), std::nullopt) << name;
}

// By the launcher that says which rank this is: torchrun in a task of srun meets at its own port.
TEST(Launcher, WhichStartItIs) {
  EXPECT_EQ(start_of({}), "");
  EXPECT_EQ(start_of(kTorch), "");
  EXPECT_EQ(start_of(kSlurm), "77:0");
  const Environment met{{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(start_of(together({kTorch, met})), "29500");
  EXPECT_EQ(start_of(together({kTorch, met, kSlurm})), "29500");
  EXPECT_EQ(start_of(together({kSlurm, met})), "77:0");
  EXPECT_EQ(start_of(together({kOpenMpi, {{"PMIX_NAMESPACE", "prterun-node3-1@1"}}})), "prterun-node3-1@1");
  EXPECT_EQ(start_of(together({kTorch, met, {{"LAGGARD_LAUNCH", "x"}}})), "x");
}

}  // namespace
}  // namespace laggard::agent
