// Labs are built for real, which takes root; without it only what they are called is tested.
#include "launch/lab.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/error.h"

namespace starling {
namespace {

// Others may run these tests on the same machine, at the same time.
const std::string kOurs = "test" + std::to_string(::getpid());
const std::string kFirstLab = kOurs + "_one", kSecondLab = kOurs + "_two";

std::set<std::string> interfaces_here() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    names.insert(entry.path().filename());
  }
  return names;
}

bool is_up(const std::string& name) {
  const std::vector<Lab> labs = Lab::all();
  return std::ranges::find(labs, name, &Lab::name) != labs.end();
}

TEST(LabSpec, IsANumberOfHostsAndARate) {
  EXPECT_EQ(parse_lab_spec("6x100mbit").hosts, 6);
  EXPECT_EQ(parse_lab_spec("6x100mbit").rate, "100mbit");
  EXPECT_EQ(parse_lab_spec("1.5gbit").hosts, 0);
  EXPECT_EQ(parse_lab_spec("1.5gbit").rate, "1.5gbit");
}

TEST(LabSpec, OfAnotherKindIsRefused) {
  for (const char* text : {"", "x", "0x1mbit", "-1x1mbit", "6x", "6", "100", "100mbps", "mbit",
                           "6x100mbit; rm", "201x1mbit", "1x2x3mbit", ".5mbit", "1234567890mbit"}) {
    EXPECT_THROW(parse_lab_spec(text), Error) << text;
  }
}

TEST(LabLimits, AreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_host_memory("1g"), 1'000'000'000u);
  EXPECT_EQ(parse_host_memory("512M"), 512'000'000u);
  EXPECT_EQ(parse_host_memory("1.5 GB"), 1'500'000'000u);
  EXPECT_EQ(parse_host_memory("64000000"), 64'000'000u);
  for (const char* text : {"", "g", "63m", "-1g", "1gib", "much", "1gg", "nan"}) {
    EXPECT_THROW(parse_host_memory(text), Error) << text;
  }
  EXPECT_EQ(parse_slow_host("3:5"), std::pair(3, 5.0));
  EXPECT_EQ(parse_slow_host("0:1.5"), std::pair(0, 1.5));
  for (const char* text :
       {"", "3", "3:", ":5", "-1:5", "3:0.5", "3:1001", "3:nan", "3:5x", "x:5"}) {
    EXPECT_THROW(parse_slow_host(text), Error) << text;
  }
}

TEST(LabLimits, AreMemoryForAllAndTimeForSome) {
  const LabLimits limits{1000, {{2, 4}}};
  EXPECT_EQ(limits.of(0).cores, 0);
  EXPECT_EQ(limits.of(0).memory_bytes, 1000u);
  EXPECT_EQ(limits.of(2).cores, 0.25);
  EXPECT_FALSE(LabLimits().of(0).any());
}

class BuiltLab : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "building a lab takes root";
  }
  void TearDown() override {
    for (const Lab& lab : Lab::all()) {
      if (lab.name().starts_with(kOurs)) lab.down();
    }
  }
};

TEST_F(BuiltLab, StandsUntilItIsTakenDownAndTouchesNothingElse) {
  const auto before = interfaces_here();
  const Lab lab = Lab::up(kFirstLab, {3, "50mbit"});
  EXPECT_EQ(interfaces_here(), before);
  EXPECT_EQ(lab.hosts(), 3);
  EXPECT_EQ(lab.rate(), "50Mbit");
  EXPECT_EQ(lab.address(2), "10.77.0.3");
  EXPECT_TRUE(lab.processes(0).empty());
  EXPECT_EQ(Lab::find(kFirstLab).hosts(), 3);
  lab.down();
  EXPECT_FALSE(is_up(kFirstLab));
  EXPECT_EQ(interfaces_here(), before);
  lab.down();  // again does no harm
}

TEST_F(BuiltLab, StandsBesideAnother) {
  const Lab one = Lab::up(kFirstLab, {2, "50mbit"});
  const Lab two = Lab::up(kSecondLab, {1, "1mbit"});
  EXPECT_EQ(two.rate(), "1Mbit");
  one.down();
  EXPECT_FALSE(is_up(kFirstLab));
  EXPECT_TRUE(is_up(kSecondLab));
}

TEST_F(BuiltLab, IsNotBuiltTwiceNorUnderAnyName) {
  Lab::up(kFirstLab, {1, "50mbit"});
  EXPECT_THROW(Lab::up(kFirstLab, {1, "50mbit"}), Error);
  EXPECT_EQ(Lab::find(kFirstLab).hosts(), 1);  // the first is unharmed
  for (const char* name : {"", "a b", "../etc", "A", "x-y"}) {
    EXPECT_THROW(Lab::up(name, {1, "50mbit"}), Error) << name;
  }
  EXPECT_THROW(Lab::find("nosuch"), Error);
}

TEST_F(BuiltLab, ThatCannotBeFinishedLeavesNothingBehind) {
  EXPECT_THROW(Lab::up(kFirstLab, {2, "nonsense"}), Error);
  EXPECT_FALSE(is_up(kFirstLab));
}

TEST_F(BuiltLab, OfAJobEndsWithItAndThoseOfDeadJobsAreTakenAway) {
  // More than any process number.
  const std::string dead = "run" + std::to_string(99'000'000 + ::getpid());
  Lab::up(dead, {1, "50mbit"});
  std::string own;
  {
    const LabStay stay("50mbit", 2);
    own = stay.lab().name();
    EXPECT_EQ(stay.lab().hosts(), 2);
    EXPECT_FALSE(is_up(dead));
  }
  EXPECT_FALSE(is_up(own));
}

TEST_F(BuiltLab, OfAnotherJobThatStillRunsStays) {
  const pid_t job = ::fork();
  if (job == 0) {
    for (;;) ::pause();
  }
  const Lab lab = Lab::up("run" + std::to_string(job), {1, "50mbit"});
  { const LabStay stay("50mbit", 1); }
  EXPECT_TRUE(is_up(lab.name()));
  lab.down();
  ::kill(job, SIGKILL);
  ::waitpid(job, nullptr, 0);
}

TEST_F(BuiltLab, OfSomebodyStaysThoughItsNameBeginsLikeAJobs) {
  EXPECT_TRUE(is_of_a_job("run123"));
  for (const char* name : {"run", "runner", "run_1", "run1a", "lab1", "123"}) {
    EXPECT_FALSE(is_of_a_job(name)) << name;
  }
  const Lab lab = Lab::up("run_" + kFirstLab, {1, "50mbit"});
  { const LabStay stay("50mbit", 1); }
  EXPECT_TRUE(is_up(lab.name()));
  lab.down();
}

TEST_F(BuiltLab, OfANameStaysWhenTheJobEnds) {
  Lab::up(kFirstLab, {2, "50mbit"});
  { const LabStay stay(kFirstLab, 2); }
  EXPECT_TRUE(is_up(kFirstLab));
  EXPECT_THROW(LabStay(kFirstLab, 3), Error);
  EXPECT_THROW(LabStay("2x50mbit", 3), Error);
}

// Labs whose hosts are slow, where control groups allow that.
class SlowLab : public BuiltLab {
 protected:
  void SetUp() override {
    BuiltLab::SetUp();
    const std::string why = why_no_limits({.cores = 1});
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static LabSpec spec() { return {2, "50mbit", {0, {{1, 4}}}}; }
};

TEST_F(SlowLab, KeepsItsLimitsUntilItIsTakenDown) {
  const Lab lab = Lab::up(kFirstLab, spec());
  EXPECT_FALSE(lab.limits(0).any());
  EXPECT_EQ(lab.limits(1).cores, 0.25);
  EXPECT_EQ(Lab::find(kFirstLab).limits(1).cores, 0.25);
  lab.down();
  EXPECT_FALSE(lab.limits(1).any());
  EXPECT_TRUE(Cgroup::names(lab.name_space(1)).empty());
}

TEST_F(SlowLab, IsFoundAndTakenDownIfOnlyItsGroupsAreLeft) {
  Cgroup::make("starling-" + kFirstLab + "-3", {.cores = 0.5});
  ASSERT_TRUE(is_up(kFirstLab));
  EXPECT_EQ(Lab::find(kFirstLab).hosts(), 4);
  EXPECT_THROW(Lab::up(kFirstLab, {1, "50mbit"}), Error);
  Lab::find(kFirstLab).down();
  EXPECT_FALSE(is_up(kFirstLab));
  EXPECT_TRUE(Cgroup::names("starling-" + kFirstLab).empty());
}

TEST_F(SlowLab, LeavesStrangersGroupsAlone) {
  const Cgroup strangers = Cgroup::make("starling-" + kFirstLab + "-database", {.cores = 0.5});
  EXPECT_FALSE(is_up(kFirstLab));
  Lab::up(kFirstLab, spec()).down();
  EXPECT_EQ(Cgroup::names("starling-" + kFirstLab).size(), 1u);
  strangers.remove();
}

TEST_F(SlowLab, ThatCannotBeIsRefusedAndLeavesNothingBehind) {
  EXPECT_THROW(Lab::up(kFirstLab, {2, "50mbit", {0, {{2, 4}}}}), Error);
  EXPECT_THROW(Lab::up(kFirstLab, {2, "50mbit", {0, {{1, 0.5}}}}), Error);
  EXPECT_THROW(Lab::up(kFirstLab, {2, "nonsense", {0, {{1, 4}}}}), Error);
  EXPECT_FALSE(is_up(kFirstLab));
}

TEST_F(SlowLab, HasItsProcessesInBothNamespaceAndGroup) {
  const Lab lab = Lab::up(kFirstLab, spec());
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_host(lab, 1)) ::_exit(1);
    for (;;) ::pause();
  }
  const auto line = [&] {
    std::ifstream file("/proc/" + std::to_string(child) + "/cgroup");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (int i = 0; i < 500 && lab.processes(1).empty(); ++i) ::usleep(10'000);
  EXPECT_EQ(lab.processes(1), std::vector<int>{child});
  EXPECT_NE(line().find(":/starling-" + kFirstLab + "-1\n"), std::string::npos) << line();
  lab.down();  // ends it, or its group could not go
  ::kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_FALSE(is_up(kFirstLab));
}

TEST_F(SlowLab, OfAJobsOwnTakesLimitsAndOneThatStandsDoesNot) {
  {
    const LabStay stay("50mbit", 2, {0, {{1, 4}}});
    EXPECT_EQ(stay.lab().limits(1).cores, 0.25);
  }
  Lab::up(kFirstLab, spec());
  EXPECT_THROW(LabStay(kFirstLab, 2, {0, {{1, 4}}}), Error);
  EXPECT_TRUE(can_slow_hosts("50mbit"));
  EXPECT_FALSE(can_slow_hosts(kFirstLab));
  EXPECT_FALSE(can_slow_hosts(""));
}

TEST_F(BuiltLab, IsRefusedWhereMemoryCannotBeLimited) {
  if (why_no_limits({.memory_bytes = 1}).empty()) GTEST_SKIP() << "it can be limited here";
  EXPECT_THROW(Lab::up(kFirstLab, {1, "50mbit", {100'000'000, {}}}), Error);
  EXPECT_FALSE(is_up(kFirstLab));
}

TEST_F(BuiltLab, LimitsMemoryWhereItCan) {
  const std::string why = why_no_limits({.memory_bytes = 1});
  if (!why.empty()) GTEST_SKIP() << why;
  const Lab lab = Lab::up(kFirstLab, {2, "50mbit", {100'000'000, {}}});
  for (int host : {0, 1}) {
    EXPECT_NEAR(static_cast<double>(lab.limits(host).memory_bytes), 1e8, 65536);  // whole pages
  }
}

}  // namespace
}  // namespace starling
