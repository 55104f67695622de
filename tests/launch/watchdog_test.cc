// Who is said to wait for whom, when, and how often.
#include "launch/watchdog.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "launch/job_folder.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Process = RankStatus::Process;
using State = BoardEntry::State;

constexpr BoardTime kNow{1000s};

RankStatus rank_in(int rank, State state, const std::vector<int>& awaited = {}) {
  RankStatus status{rank, {}, Process::runs};
  status.entry.process = 100 + rank;
  status.entry.rank = rank;
  status.entry.state = state;
  status.entry.counts_steps = true;
  status.entry.steps = 116;
  status.entry.since = kNow - 21s;
  status.entry.written = kNow;
  for (const int other : awaited) status.entry.add_wait(other, "a ring all-reduce", false);
  return status;
}

RankStatus stopped(int rank) {
  RankStatus status = rank_in(rank, State::exchanging);
  status.process = Process::stopped;
  status.entry.written = kNow - 21s;
  return status;
}

TEST(Watchdog, NamesWhoWaitsForWhomInWhat) {
  EXPECT_EQ(describe_doing(rank_in(2, State::exchanging, {0}), kNow),
            "waits for rank 0 in a ring all-reduce of step 117 (for 21.0 s)");
  EXPECT_EQ(describe_doing(rank_in(2, State::exchanging, {0, 3}), kNow),
            "waits for ranks 0, 3 in a ring all-reduce of step 117 (for 21.0 s)");
  EXPECT_EQ(describe_doing(rank_in(0, State::computing), kNow),
            "computes in step 117 (for 21.0 s)");
  EXPECT_EQ(describe_doing(stopped(0), kNow),
            "is stopped in step 117, by a signal; it was last heard of 21.0 s ago");
  RankStatus busy = rank_in(1, State::exchanging, {0});
  busy.entry.written = kNow - 5s;
  EXPECT_EQ(describe_doing(busy, kNow), "is busy within an exchange of step 117 (for 5.0 s)");
  RankStatus own = rank_in(2, State::exchanging, {0});
  own.entry.counts_steps = false;
  EXPECT_EQ(describe_doing(own, kNow), "waits for rank 0 in a ring all-reduce (for 21.0 s)");
}

// A rank that can send and receives nothing waits for the one that it receives from.
TEST(Watchdog, ReceivingComesBeforeSending) {
  RankStatus both = rank_in(1, State::exchanging, {0});
  both.entry.add_wait(2, "a ring all-reduce", true);
  EXPECT_EQ(awaited_by(both), std::vector{0});
  RankStatus sends = rank_in(1, State::exchanging);
  sends.entry.add_wait(2, "a ring all-reduce", true);
  EXPECT_EQ(awaited_by(sends), std::vector{2});
}

TEST(Watchdog, BlamesWhoWaitsForNobody) {
  const RankStatus one = rank_in(1, State::exchanging, {0}),
                   two = rank_in(2, State::exchanging, {1});
  EXPECT_EQ(describe_culprits({stopped(0), one, two}), "rank 0 keeps the others waiting");
  EXPECT_EQ(describe_culprits({rank_in(0, State::computing), one, two}),
            "rank 0 keeps the others waiting");
  EXPECT_EQ(describe_culprits({rank_in(0, State::exchanging, {2}), one, two}),
            "they wait for one another, all around");
  EXPECT_EQ(describe_culprits({one, two}),
            "rank 0 keeps the others waiting; what one on another machine does, its launcher says");
  EXPECT_EQ(describe_culprits({rank_in(0, State::computing), rank_in(1, State::computing)}), "");
}

TEST(Watchdog, SaysItOnceAndThatItGoesOn) {
  Watchdog dog(20s);
  std::vector<RankStatus> all = {stopped(0), rank_in(1, State::exchanging, {0})};
  EXPECT_TRUE(dog.look(all, kNow).empty());
  EXPECT_TRUE(dog.look(all, kNow + 19s).empty());
  const std::vector<std::string> said = dog.look(all, kNow + 20s);
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(said[0], "starling: nothing has moved for 20.0 s:");
  EXPECT_EQ(said[3], "  rank 0 keeps the others waiting");
  EXPECT_TRUE(dog.look(all, kNow + 60s).empty()) << "it was said already";
  ++all[1].entry.moved_bytes;
  EXPECT_EQ(dog.look(all, kNow + 61s),
            std::vector<std::string>{"starling: it moves again, after 1 min 1 s"});
  EXPECT_TRUE(dog.look(all, kNow + 62s).empty());
  EXPECT_EQ(dog.look(all, kNow + 81s).size(), 4u) << "it has hung again";
}

TEST(Watchdog, SaysNothingWhereItIsOffNobodyTellsOrSomethingMoves) {
  std::vector<RankStatus> all = {rank_in(0, State::computing)};
  Watchdog off(0s), silent(20s), moving(20s);
  RankStatus untold{0, {}, Process::none};
  for (auto time = kNow; time < kNow + 100s; time += 1s) {
    EXPECT_TRUE(off.look(all, time).empty());
    EXPECT_TRUE(silent.look({untold}, time).empty());
    ++all[0].entry.steps;
    EXPECT_TRUE(moving.look(all, time).empty());
  }
}

class InAJobFolder : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_RUNTIME_DIR"); }
  TemporaryFolder folder_;
};

TEST_F(InAJobFolder, RunningJobsAreFoundAndThoseOfTheDeadSweptUp) {
  EXPECT_TRUE(running_jobs().empty());
  const pid_t child = ::fork();
  if (child == 0) {  // dies without a word
    auto* left = new JobFolder(nlohmann::json{{"run", "runs/dead"}});
    left->add_board(0);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(jobs_folder() / (std::to_string(child) + "-1")));
  {
    JobFolder job(nlohmann::json{{"run", "runs/mine"}});
    Board board(job.add_board(1), 1);
    const std::vector<RunningJob> found = running_jobs();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].launcher, ::getpid());
    EXPECT_EQ(nlohmann::json::parse(found[0].description)["run"], "runs/mine");
    const std::vector<RankStatus> ranks = read_boards(found[0].folder);
    ASSERT_EQ(ranks.size(), 1u);
    EXPECT_EQ(ranks[0].rank, 1);
    EXPECT_EQ(ranks[0].process, Process::runs);
  }
  EXPECT_TRUE(running_jobs().empty());
  EXPECT_FALSE(std::filesystem::exists(jobs_folder() / (std::to_string(child) + "-1")));
}

TEST_F(InAJobFolder, ItIsThisUsersAlone) {
  const JobFolder job(nlohmann::json::object());
  for (const auto& path : {jobs_folder(), job.path()}) {
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u) << path;
  }
  ::chmod((folder_.path() / "starling").c_str(), 0755);
  EXPECT_THROW(jobs_folder(), Error) << "others can look into it";
}

TEST_F(InAJobFolder, NobodyElsesFolderIsUsed) {
  const TemporaryFolder elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path(), folder_.path() / "starling");
  EXPECT_THROW(jobs_folder(), Error);
}

}  // namespace
}  // namespace starling
