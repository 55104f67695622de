// `starling launch --hosts`, with a command in ssh's place that stays on this machine, and programs that
// other launchers than ours have started. With ssh, and on several machines: tests/clusters.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "tests/cli/starling_program.h"
#include "tests/cli/two_machines.h"
#include "tests/process.h"

namespace starling {
namespace {

using Strings = std::vector<std::string>;

constexpr auto kHostsPatience = 60s;

class Hosts : public testing::Test {
 protected:
  Hosts() {
    std::ofstream(rsh_) << "#!/bin/sh\n"
                           "[ $1 != 127.0.0.9 ] || { echo nobody is there >&2; exit 255; }\n"
                           "echo 'Welcome!'\nexec sh -c \"$2\"\n";
    std::filesystem::permissions(rsh_, std::filesystem::perms::owner_all);
  }

  Strings launch(const std::string& hosts, const Strings& program, Strings flags = {}) const {
    Strings command = {STARLING_PROGRAM, "launch", "--hosts", hosts, "--rsh", rsh_.string()};
    command.insert(command.end(), flags.begin(), flags.end());
    command.push_back("--");
    command.insert(command.end(), program.begin(), program.end());
    return command;
  }

  TemporaryFolder folder_;
  std::filesystem::path rsh_ = folder_.path() / "rsh";
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(Hosts, ShareOutTheRanks) {
  Process process(
      launch("127.0.0.2:2,127.0.0.3:1",
             {"sh", "-c", "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 0") << process.story();
  for (const char* line :
       {"[0] 0 of 3, 0 of 2\n", "[1] 1 of 3, 1 of 2\n", "[2] 2 of 3, 0 of 1\n"}) {
    EXPECT_EQ(count_of(process.out(), line), 1u) << process.story();
  }
  EXPECT_EQ(count_of(process.out(), "Welcome"), 0u) << process.out();
}

TEST_F(Hosts, WorkTogether) {
  Process process(launch("127.0.0.2,127.0.0.3", {STARLING_FLOCK_WORKER, "meet+finish"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 0") << process.story();
}

TEST_F(Hosts, FindEachOtherWhereTheFirstIsOnLoopback) {
  Process process(launch("127.0.0.2:1,127.0.0.3:2", {STARLING_FLOCK_WORKER, "meet+finish"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 0") << process.story();
}

TEST_F(Hosts, WorkTogetherByTheirUsers) {
  Process process(launch("anna@127.0.0.2,ben@127.0.0.3", {STARLING_FLOCK_WORKER, "meet+finish"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 0") << process.story();
}

TEST_F(Hosts, HandOverTheVariablesThatAreNamed) {
  Process process(launch("127.0.0.2", {"sh", "-c", "echo $COLOUR and $SHAPE"},
                         {"-x", "COLOUR", "-x", "SHAPE=round"}),
                  {"COLOUR=blue"});
  EXPECT_EQ(process.wait(kHostsPatience), "exit 0") << process.story();
  EXPECT_EQ(process.out(), "[0] blue and round\n");
}

TEST_F(Hosts, NameWhoFailed) {
  Process process(launch("127.0.0.2:1,127.0.0.3:1", {STARLING_FLOCK_WORKER, "ring", "1:exit"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 1") << process.story();
  EXPECT_EQ(count_of(process.err(), "error: rank 1 exited with status 3"), 1u) << process.err();
  EXPECT_TRUE(process.gone_within(kHostsPatience)) << process.story();
}

TEST_F(Hosts, OneThatCannotBeReachedEndsTheLaunchInALine) {
  Process process(launch("127.0.0.2:1,127.0.0.9:1", {STARLING_FLOCK_WORKER, "ring"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 1") << process.story();
  EXPECT_TRUE(process.err().starts_with(
      "error: cannot start workers on 127.0.0.9 (nobody is there); see that "))
      << process.err();
  EXPECT_EQ(lines_of(process.err()).size(), 1u) << process.err();
  EXPECT_TRUE(process.gone_within(kHostsPatience)) << process.story();
}

TEST_F(Hosts, HaveNoResetLimit) {
  const Ran ran = starling_program(
      {"launch", "--hosts", "a:1,b:1", "--elastic", "--reset-limit", "3", "--", "true"});
  EXPECT_EQ(ran.status, "exit 1");
  EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
  EXPECT_NE(ran.err.find("--reset-limit"), std::string::npos) << ran.err;
}

TEST_F(Hosts, GoWithALauncherThatIsKilled) {
  Process process(launch("127.0.0.2,127.0.0.3", {STARLING_FLOCK_WORKER, "child+ring"}));
  ASSERT_TRUE(wait_until(kHostsPatience, [&] {
    return count_of(process.out(), "is exchanging") == 2;
  })) << process.story();
  for (const Relative& each : process.family()) {
    const std::string secret = each.variable("STARLING_SECRET");
    if (secret.empty()) continue;
    for (const Relative& other : process.family()) {
      EXPECT_EQ(other.command().find(secret), std::string::npos) << other.command();
    }
  }
  process.signal(SIGKILL);
  EXPECT_TRUE(process.gone_within(kHostsPatience)) << process.story();
}

TEST_F(Hosts, EndOnCtrlC) {
  Process process(launch("127.0.0.2:1,127.0.0.3:1", {STARLING_FLOCK_WORKER, "ring"}));
  ASSERT_TRUE(wait_until(kHostsPatience, [&] {
    return count_of(process.out(), "is exchanging") == 2;
  })) << process.story();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(kHostsPatience), "exit 130") << process.story();
  // One host hears of it before the other, whose rank may then say whom it has lost.
  Strings said = lines_of(process.err());
  std::erase_if(said, [](const std::string& line) { return line.find(" ends: ") != line.npos; });
  EXPECT_EQ(said, Strings{"error: interrupted by Ctrl-C"}) << process.err();
  EXPECT_TRUE(process.gone_within(kHostsPatience)) << process.story();
}

TEST_F(Hosts, MustBeOnTheNetworkThatIsChosen) {
  Process process(launch("127.0.0.2:1,127.0.0.3:1", {"true"}, {"--interface", "eth77"}));
  EXPECT_EQ(process.wait(kHostsPatience), "exit 1") << process.story();
  EXPECT_TRUE(process.err().starts_with("error: --interface eth77 is not on 127.0.0.2 (it has "))
      << process.err();
}

// Each rank a process of its own, with the variables that an engine would set.
class Engines : public testing::Test {
 protected:
  std::unique_ptr<Process> start(Strings variables, const std::string& home = "home") const {
    std::filesystem::create_directories(folder_.path() / home);
    variables.push_back("XDG_CONFIG_HOME=" + (folder_.path() / home).string());
    variables.push_back("STARLING_TIMEOUT_SECONDS=5");
    return std::make_unique<Process>(Strings{STARLING_FLOCK_WORKER, "meet+finish"}, variables);
  }
  static Strings of_torchrun(int rank, const std::string& address) {
    const std::size_t colon = address.rfind(':');
    return {"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
            "MASTER_ADDR=" + address.substr(0, colon), "MASTER_PORT=" + address.substr(colon + 1)};
  }
  static Strings of_slurm(int rank) {
    return {"SLURM_JOB_ID=" + std::to_string(::getpid()),
            "SLURM_STEP_ID=0",
            "SLURM_PROCID=" + std::to_string(rank),
            "SLURM_LOCALID=" + std::to_string(rank),
            "SLURM_STEP_NUM_TASKS=2",
            "SLURM_STEP_NUM_NODES=1",
            "SLURM_STEP_TASKS_PER_NODE=2",
            "SLURM_STEP_NODELIST=localhost"};
  }

  TemporaryFolder folder_;
};

TEST_F(Engines, ProgramsMeetByTorchrunsVariables) {
  const std::string address = free_address();
  const auto one = start(of_torchrun(0, address)), other = start(of_torchrun(1, address));
  EXPECT_EQ(one->wait(kHostsPatience), "exit 0") << one->story();
  EXPECT_EQ(other->wait(kHostsPatience), "exit 0") << other->story();
}

TEST_F(Engines, ProgramsMeetBySlurmsVariables) {
  const auto one = start(of_slurm(0)), other = start(of_slurm(1));
  EXPECT_EQ(one->wait(kHostsPatience), "exit 0") << one->story();
  EXPECT_EQ(other->wait(kHostsPatience), "exit 0") << other->story();
}

TEST_F(Engines, WithoutTheSameKeyTheyDoNotTrustEachOther) {
  const std::string address = free_address();
  const auto one = start(of_torchrun(0, address)),
             other = start(of_torchrun(1, address), "another");
  EXPECT_EQ(one->wait(kHostsPatience), "exit 1") << one->story();
  EXPECT_EQ(other->wait(kHostsPatience), "exit 1") << other->story();
  EXPECT_GE(count_of(other->err(), "secret"), 1u) << other->story();
}

TEST_F(Engines, TooFewProcessesAreRefused) {
  Strings variables = of_slurm(0);
  variables.push_back("XDG_CONFIG_HOME=" + folder_.path().string());
  Process process({STARLING_PROGRAM, "launch", "-n", "4", "--", "true"}, variables);
  EXPECT_EQ(process.wait(kHostsPatience), "exit 1") << process.story();
  EXPECT_EQ(
      process.err(),
      "error: 4 workers, and Slurm has started 2 processes; start as many with `srun -n 4`, or "
      "leave the number out\n");
}

}  // namespace
}  // namespace starling
