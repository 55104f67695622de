#include "job/engine_place.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/temporary_folder.h"
#include "job/slurm.h"
#include "job/user_key.h"
#include "tests/error_of.h"

namespace starling {
namespace {

using Values = std::map<std::string, std::string>;

Variables variables_of(Values values) {
  return Variables([values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

// As srun -N 2 -n 4 sets them, for its third task.
const Values kTask = {{"SLURM_JOB_ID", "12"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "2"},
                      {"SLURM_LOCALID", "2"},
                      {"SLURM_NODEID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_STEP_NUM_NODES", "2"},
                      {"SLURM_STEP_NODELIST", "n[1-2]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                      {"SLURM_CPUS_ON_NODE", "6"}};

Values with(Values values, const std::string& name, const std::string& value) {
  values[name] = value;
  return values;
}

TEST(EnginePlace, OfASlurmTask) {
  const auto place = engine_place(variables_of(kTask));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 2);
  EXPECT_EQ(place->local_size, 3);
  EXPECT_EQ(place->machine, 0);
  EXPECT_EQ(place->machines, 2);
  EXPECT_EQ(place->cores, 6);
  EXPECT_EQ(place->job, "slurm-12.0");
  EXPECT_TRUE(place->rendezvous.starts_with("n1:")) << place->rendezvous;
}

TEST(EnginePlace, ABatchScriptIsNoTask) {
  Values script = kTask;
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"}) {
    script.erase(name);
  }
  EXPECT_FALSE(engine_place(variables_of(with(script, "SLURM_NTASKS", "4"))));
  EXPECT_FALSE(engine_place(variables_of({})));
}

TEST(EnginePlace, WhoIsAloneIsInNoJob) {
  Values one = with(kTask, "SLURM_STEP_NUM_TASKS", "1");
  one["SLURM_PROCID"] = one["SLURM_LOCALID"] = "0";
  one["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_FALSE(engine_place(variables_of(one)));
}

TEST(EnginePlace, AJobThatComesBackMeetsElsewhere) {
  const auto first = engine_place(variables_of(kTask));
  const auto again = engine_place(variables_of(with(kTask, "SLURM_RESTART_COUNT", "1")));
  const auto other = engine_place(variables_of(with(kTask, "SLURM_STEP_ID", "1")));
  EXPECT_NE(first->rendezvous, again->rendezvous);
  EXPECT_NE(first->rendezvous, other->rendezvous);
  EXPECT_EQ(first->job, again->job);
}

TEST(EnginePlace, OfAnArray) {
  Values task = with(kTask, "SLURM_ARRAY_JOB_ID", "7");
  task["SLURM_ARRAY_TASK_ID"] = "3";
  EXPECT_EQ(engine_place(variables_of(task))->job, "slurm-7_3.0");
}

TEST(EnginePlace, WhatSlurmWouldNeverSayIsRefused) {
  EXPECT_EQ(error_of([] { engine_place(variables_of(with(kTask, "SLURM_PROCID", "4"))); }),
            "SLURM_PROCID is '4'; it must be a whole number from 0 to 3");
  EXPECT_EQ(
      error_of([] { engine_place(variables_of(with(kTask, "SLURM_STEP_TASKS_PER_NODE", "x"))); }),
      "SLURM_STEP_TASKS_PER_NODE is 'x', without node 0; start the program with srun, which "
      "sets it");
}

TEST(EnginePlace, SlurmsShorthand) {
  EXPECT_EQ(first_host("node[03-07,12],other"), "node03");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("rack[1-2]node"), "rack1node");
  EXPECT_EQ(first_host("n7"), "n7");
  EXPECT_EQ(tasks_on_node("4(x2),3", 1), 4);
  EXPECT_EQ(tasks_on_node("4(x2),3", 2), 3);
  EXPECT_THROW(tasks_on_node("4(x2),3", 3), Error);
}

const Values kOfTorchrun = {{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "10.0.0.1"},
                            {"MASTER_PORT", "29500"}};

TEST(EnginePlace, OfTorchrun) {
  const auto place = engine_place(variables_of(kOfTorchrun));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_size, 2);
  EXPECT_EQ(place->machine, 1);
  EXPECT_EQ(place->machines, 2);
  EXPECT_EQ(place->rendezvous, "10.0.0.1:29500");
}

// Scripts and DeepSpeed's launcher set the rank there alone.
TEST(EnginePlace, OfALocalRankWithoutALocalSize) {
  Values values = kOfTorchrun;
  values.erase("LOCAL_WORLD_SIZE");
  const auto place = engine_place(variables_of(values));
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_size, 2);
  EXPECT_EQ(error_of([&] { engine_place(variables_of(with(values, "LOCAL_RANK", "4"))); }),
            "LOCAL_RANK is '4'; it must be a whole number from 0 to 3");
}

TEST(EnginePlace, WhereTorchrunListensNobodyElseCan) {
  const auto values = with(kOfTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_EQ(engine_place(variables_of(values))->rendezvous, "10.0.0.1:29501");
}

TEST(EnginePlace, WithoutAMasterThereIsNoMeeting) {
  Values values = kOfTorchrun;
  values.erase("MASTER_ADDR");
  EXPECT_EQ(error_of([&] { engine_place(variables_of(values)); }),
            "WORLD_SIZE is 4, and MASTER_ADDR or MASTER_PORT is not set; set them to the host of "
            "rank 0 and a free port there");
}

// As mpirun -np 4 of Open MPI sets them on one machine.
const Values kOfOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"OMPI_MCA_ess_base_jobid", "523501569"}};

TEST(EnginePlace, OfOpenMpisMpirun) {
  const auto place = engine_place(variables_of(kOfOpenMpi));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 3);
  EXPECT_EQ(place->local_size, 4);
  EXPECT_EQ(place->machines, 1);
  EXPECT_EQ(place->job, "mpirun-523501569");
  EXPECT_TRUE(place->rendezvous.starts_with("127.0.0.1:")) << place->rendezvous;
  const auto other = engine_place(variables_of(with(kOfOpenMpi, "OMPI_MCA_ess_base_jobid", "7")));
  EXPECT_NE(place->rendezvous, other->rendezvous);
  EXPECT_FALSE(
      engine_place(variables_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})));
}

TEST(EnginePlace, BetweenMachinesMpirunMustSayWhereRank0Is) {
  const Values two = with(kOfOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  const Values values = with(two, "OMPI_COMM_WORLD_LOCAL_RANK", "1");
  EXPECT_EQ(error_of([&] { engine_place(variables_of(values)); }),
            "mpirun has started 4 processes, and does not say where rank 0 is; say so: `mpirun -x "
            "MASTER_ADDR=HOST -x MASTER_PORT=29500 ...`");
  const auto place = engine_place(variables_of(with(values, "MASTER_ADDR", "fd00::1")));
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->rendezvous.starts_with("[fd00::1]:")) << place->rendezvous;
  EXPECT_EQ(place->machines, 2);
  EXPECT_EQ(place->machine, 1);
  const auto of_slurm = engine_place(variables_of(with(values, "SLURM_JOB_NODELIST", "n[3-4]")));
  EXPECT_TRUE(of_slurm->rendezvous.starts_with("n3:")) << of_slurm->rendezvous;
}

// Whose processes on a machine are found by the one that has started them, which is not here.
const Values kOfMpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

TEST(EnginePlace, OfMpichsMpirun) {
  EXPECT_EQ(error_of([&] { engine_place(variables_of(kOfMpich)); }),
            "mpirun has started 2 processes, and does not say where rank 0 is; say so: `mpirun "
            "-genv MASTER_ADDR HOST -genv MASTER_PORT 29500 ...`");
  const auto place = engine_place(variables_of(with(kOfMpich, "MASTER_PORT", "29500")));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->rendezvous, "127.0.0.1:29500");
}

TEST(EnginePlace, OfMpirunWithinSlurm) {
  Values values = kTask;  // of mpirun's own process on that machine
  values.insert(kOfOpenMpi.begin(), kOfOpenMpi.end());
  EXPECT_EQ(engine_place(variables_of(values))->engine, "mpirun");
  Values by_srun = kTask;  // srun --mpi=pmi2
  by_srun.insert({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(engine_place(variables_of(by_srun))->engine, "Slurm");
}

class UserKey : public testing::Test {
 protected:
  UserKey() { ::setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1); }
  ~UserKey() override { ::unsetenv("XDG_CONFIG_HOME"); }

  TemporaryFolder folder_;
};

TEST_F(UserKey, IsMadeOnceAndIsItsUsersAlone) {
  const std::string key = user_key();
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(user_key(), key);
  using enum std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(user_key_file()).permissions(), owner_read | owner_write);
  for (const auto& each : std::filesystem::directory_iterator(user_key_file().parent_path())) {
    EXPECT_EQ(each.path(), user_key_file()) << "a draft is left";
  }
}

TEST_F(UserKey, MakesAnotherSecretForEachJob) {
  EXPECT_EQ(secret_from_key("one"), secret_from_key("one"));
  EXPECT_NE(secret_from_key("one"), secret_from_key("other"));
  EXPECT_EQ(secret_from_key("one").find(user_key()), std::string::npos);
}

TEST_F(UserKey, IsRefusedWhereOthersCanReadIt) {
  user_key();
  using enum std::filesystem::perms;
  std::filesystem::permissions(user_key_file(), owner_read | owner_write | group_read);
  EXPECT_NE(error_of([] { user_key(); }).find("is not yours alone"), std::string::npos);
}

}  // namespace
}  // namespace starling
