// What is written where, in folders made up to look like the kernel's; and, where the machine lets
// us, whether the kernel does as it is told.
#include "launch/cgroup.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "starling-test-0";

class FakeTree : public testing::Test {
 protected:
  FakeTree() {
    tree_ = {folder_ / "cgroup", folder_ / "own"};
    in_group("1:name=systemd:/\n");
  }

  void file(const fs::path& path, const std::string& text) {
    fs::create_directories((tree_.folder / path).parent_path());
    std::ofstream(tree_.folder / path) << text;
  }
  std::optional<std::string> text(const fs::path& path) const {
    std::ifstream stream(tree_.folder / path);
    if (!stream) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  bool is_there(const fs::path& path) const { return fs::exists(tree_.folder / path); }
  void in_group(const std::string& lines) { std::ofstream(tree_.own) << lines; }

  void build_v1() {
    file("cpu/cgroup.procs", "");
    file("memory/cgroup.procs", "");
    file("unified/cgroup.procs", "");
    file("unified/cgroup.controllers", "hugetlb\n");
    in_group("4:memory:/\n2:cpu,cpuacct:/\n0::/elsewhere\n");
  }
  void build_v2(const fs::path& top) {
    file(top / "cgroup.procs", "");
    file(top / "cgroup.controllers", "cpuset cpu io memory pids\n");
    file(top / "cgroup.subtree_control", "memory pids\n");
    in_group("0::/user.slice/user-1000.slice/session-1.scope\n");
  }
  // Folders of the kernel's vanish with the files in them.
  void empty_groups() {
    for (const auto& entry : fs::recursive_directory_iterator(tree_.folder)) {
      if (entry.path().parent_path().filename() == kName) fs::remove(entry.path());
    }
  }
  std::string refusal(const HostLimits& limits) const {
    try {
      Cgroup::make(kName, limits, tree_);
    } catch (const Error& error) {
      EXPECT_FALSE(why_no_limits(limits, tree_).empty());
      return error.what();
    }
    return "";
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  CgroupTree tree_;
};

TEST_F(FakeTree, OfVersion1HasAGroupForEachController) {
  build_v1();
  const HostLimits limits{.cores = 0.2, .memory_bytes = 1'000'000'000};
  EXPECT_EQ(why_no_limits(limits, tree_), "");
  const Cgroup group = Cgroup::make(kName, limits, tree_);
  const fs::path cpu = fs::path("cpu") / kName, memory = fs::path("memory") / kName;
  EXPECT_EQ(text(cpu / "cpu.cfs_period_us"), "10000");
  EXPECT_EQ(text(cpu / "cpu.cfs_quota_us"), "2000");
  EXPECT_EQ(text(memory / "memory.limit_in_bytes"), "1000000000");
  EXPECT_EQ(text(memory / "memory.memsw.limit_in_bytes"), "1000000000");
  EXPECT_FALSE(is_there(cpu / "memory.limit_in_bytes"));
  EXPECT_FALSE(is_there(fs::path("unified") / kName));
  EXPECT_EQ(group.limits().cores, 0.2);
  EXPECT_EQ(group.limits().memory_bytes, 1'000'000'000u);

  ASSERT_TRUE(group.enter());
  EXPECT_EQ(text(cpu / "cgroup.procs"), std::to_string(::getpid()));
  EXPECT_EQ(text(memory / "cgroup.procs"), std::to_string(::getpid()));

  empty_groups();
  group.remove();
  EXPECT_FALSE(is_there(cpu));
  EXPECT_FALSE(is_there(memory));
  EXPECT_TRUE(is_there("cpu/cgroup.procs"));
  group.remove();  // again does no harm
}

TEST_F(FakeTree, OfVersion2HasOneGroupForAll) {
  for (const char* top : {".", "unified"}) {
    fs::remove_all(tree_.folder);
    build_v2(top);
    const Cgroup group = Cgroup::make(kName, {.cores = 0.5, .memory_bytes = 100'000'000}, tree_);
    const fs::path folder = fs::path(top) / kName;
    EXPECT_EQ(text(folder / "cpu.max"), "5000 10000");
    EXPECT_EQ(text(folder / "memory.max"), "100000000");
    EXPECT_EQ(text(folder / "memory.swap.max"), "0");
    EXPECT_EQ(group.limits().cores, 0.5);
    EXPECT_EQ(group.limits().memory_bytes, 100'000'000u);
    ASSERT_TRUE(group.enter());
    EXPECT_EQ(text(folder / "cgroup.procs"), std::to_string(::getpid()));
    empty_groups();
    group.remove();
    EXPECT_FALSE(is_there(folder));
  }
}

TEST_F(FakeTree, OfVersion2HandsDownOnlyWhatItDoesNotYet) {
  build_v2(".");
  Cgroup::make(kName, {.memory_bytes = 100'000'000}, tree_);
  EXPECT_EQ(text("cgroup.subtree_control"), "memory pids\n");
  Cgroup::make("starling-test-1", {.cores = 1}, tree_);
  EXPECT_EQ(text("cgroup.subtree_control"), "+cpu");
}

TEST_F(FakeTree, HasControllersOfBothVersionsSideBySide) {
  file("cpu/cgroup.procs", "");
  file("unified/cgroup.procs", "");
  file("unified/cgroup.controllers", "memory\n");
  file("unified/cgroup.subtree_control", "memory\n");
  Cgroup::make(kName, {.cores = 1, .memory_bytes = 100'000'000}, tree_);
  EXPECT_EQ(text(fs::path("cpu") / kName / "cpu.cfs_quota_us"), "10000");
  EXPECT_EQ(text(fs::path("unified") / kName / "memory.max"), "100000000");
  EXPECT_EQ(text("unified/cgroup.subtree_control"), "memory\n");
}

TEST_F(FakeTree, OnlyHasGroupsForWhatIsLimited) {
  build_v1();
  Cgroup::make(kName, {}, tree_);
  EXPECT_TRUE(Cgroup::names("starling-", tree_).empty());
  EXPECT_TRUE(Cgroup::find(kName, tree_).enter());  // into nothing
  Cgroup::make(kName, {.memory_bytes = 100'000'000}, tree_);
  EXPECT_TRUE(is_there(fs::path("memory") / kName));
  EXPECT_FALSE(is_there(fs::path("cpu") / kName));
}

TEST_F(FakeTree, KeepsQuotasWithinWhatTheKernelTakes) {
  build_v1();
  Cgroup::make(kName, {.cores = 0.0005}, tree_);
  EXPECT_EQ(text(fs::path("cpu") / kName / "cpu.cfs_period_us"), "1000000");
  EXPECT_EQ(text(fs::path("cpu") / kName / "cpu.cfs_quota_us"), "1000");
}

TEST_F(FakeTree, ListsGroupsByTheirBeginning) {
  build_v1();
  Cgroup::make(kName, {.cores = 1, .memory_bytes = 100'000'000}, tree_);
  Cgroup::make("starling-test-1", {.cores = 1}, tree_);
  fs::create_directory(tree_.folder / "cpu" / "docker");
  EXPECT_EQ(Cgroup::names("starling-", tree_),
            (std::vector<std::string>{kName, "starling-test-1"}));
  EXPECT_EQ(Cgroup::find(kName, tree_).limits().cores, 1);
  EXPECT_FALSE(Cgroup::find("starling-nosuch-0", tree_).limits().any());
}

TEST_F(FakeTree, WithoutLimitsReadsAsSuch) {
  build_v1();
  file(fs::path("cpu") / kName / "cpu.cfs_quota_us", "-1\n");
  file(fs::path("cpu") / kName / "cpu.cfs_period_us", "100000\n");
  file(fs::path("memory") / kName / "memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(Cgroup::find(kName, tree_).limits().any());
  build_v2("unified");
  file(fs::path("unified") / kName / "cpu.max", "max 100000\n");
  file(fs::path("unified") / kName / "memory.max", "max\n");
  EXPECT_FALSE(Cgroup::find(kName, tree_).limits().any());
}

TEST_F(FakeTree, ThatCannotLimitSaysWhy) {
  EXPECT_NE(refusal({.cores = 1}).find("there is no "), std::string::npos);
  build_v1();
  fs::remove_all(tree_.folder / "memory");
  EXPECT_NE(refusal({.memory_bytes = 100'000'000}).find("know no memory; leave out --memory"),
            std::string::npos);
  EXPECT_NE(refusal({.cores = 1, .memory_bytes = 100'000'000}).find("--memory"), std::string::npos);
  EXPECT_FALSE(is_there(fs::path("cpu") / kName));  // nor half of what was asked for
  EXPECT_EQ(refusal({.cores = 1}), "");
}

TEST_F(FakeTree, IsNotToTakeAProcessOutOfSomebodysGroup) {
  build_v1();
  in_group("4:memory:/docker/0123\n2:cpu,cpuacct:/\n");
  EXPECT_NE(refusal({.memory_bytes = 100'000'000}).find("/docker/0123"), std::string::npos);
  EXPECT_FALSE(is_there(fs::path("memory") / kName));
  EXPECT_EQ(refusal({.cores = 1}), "");  // another controller's is another matter
  in_group("4:memory:/user.slice/user-0.slice\n2:cpu,cpuacct:/\n");
  EXPECT_EQ(refusal({.memory_bytes = 100'000'000}), "");

  fs::remove_all(tree_.folder);
  build_v2(".");
  in_group("0::/system.slice/ci.service\n");
  EXPECT_NE(refusal({.cores = 1}).find("/system.slice/ci.service"), std::string::npos);
}

TEST_F(FakeTree, WithAGroupOfThatNameRefusesAnother) {
  build_v1();
  file(fs::path("memory") / kName / "memory.limit_in_bytes", "7");
  EXPECT_THROW(Cgroup::make(kName, {.memory_bytes = 100'000'000}, tree_), Error);
  EXPECT_EQ(text(fs::path("memory") / kName / "memory.limit_in_bytes"), "7");
}

// For real.

struct Ended {
  int status;
  double cpu_seconds, wall_seconds;
};

template <class Work>
Ended run_in(const Cgroup& group, Work work) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    if (!group.enter()) ::_exit(9);
    work();
    ::_exit(0);
  }
  Ended ended{};
  rusage used{};
  ::wait4(child, &ended.status, 0, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  ended.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  ended.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ended;
}

class RealGroup : public testing::Test {
 protected:
  void TearDown() override { Cgroup::find(kReal).remove(); }
  static constexpr const char* kReal = "starling-cgrouptest-0";
};

TEST_F(RealGroup, SlowsABusyProcessDown) {
  const HostLimits limits{.cores = 0.2};
  if (const std::string why = why_no_limits(limits); !why.empty()) GTEST_SKIP() << why;
  const Cgroup group = Cgroup::make(kReal, limits);
  EXPECT_EQ(group.limits().cores, 0.2);
  const Ended ended = run_in(group, [] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (std::chrono::steady_clock::now() < end) {
    }
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_LE(ended.cpu_seconds, 0.5 * ended.wall_seconds);
  group.remove();
  EXPECT_TRUE(Cgroup::names(kReal).empty());
}

TEST_F(RealGroup, KillsAProcessThatTakesMoreMemory) {
  const HostLimits limits{.memory_bytes = 64'000'000};
  if (const std::string why = why_no_limits(limits); !why.empty()) GTEST_SKIP() << why;
  const Cgroup group = Cgroup::make(kReal, limits);
  const auto take = [](std::size_t bytes) {
    return [bytes] {
      void* memory =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) ::_exit(8);
      std::memset(memory, 1, bytes);
    };
  };
  EXPECT_EQ(run_in(group, take(8'000'000)).status, 0);
  const int status = run_in(group, take(256'000'000)).status;
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(RealGroup, GoesWithWhatStillRunsInIt) {
  const HostLimits limits{.cores = 0.5};
  if (const std::string why = why_no_limits(limits); !why.empty()) GTEST_SKIP() << why;
  const Cgroup group = Cgroup::make(kReal, limits);
  int entered[2];
  ASSERT_EQ(::pipe(entered), 0);
  const auto start = [&](bool inside) {
    const pid_t child = ::fork();
    if (child == 0) {
      const char told = !inside || group.enter();
      if (::write(entered[1], &told, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char told = 0;
    EXPECT_EQ(::read(entered[0], &told, 1), 1);
    EXPECT_EQ(told, 1);
    return child;
  };
  const pid_t inside = start(true), outside = start(false);
  Cgroup::find(kReal).remove();
  EXPECT_TRUE(Cgroup::names(kReal).empty());
  // SIGTERM ends whom SIGKILL has not, so that nobody stays behind.
  int status = 0;
  for (const pid_t child : {inside, outside}) {
    ::kill(child, SIGTERM);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), child == inside ? SIGKILL : SIGTERM);
  }
  ::close(entered[0]);
  ::close(entered[1]);
}

}  // namespace
}  // namespace starling
