// `starling launch` on real processes: who is told, who is blamed, and that nobody stays behind.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "job/cores.h"
#include "tests/cli/two_machines.h"
#include "tests/process.h"

namespace starling {
namespace {

using Words = std::vector<std::string>;

constexpr auto kPatience = 30s;  // for what has no bound of its own, on a loaded machine
constexpr auto kGone = 20s;      // after a death: 5 s are promised, here an end is told from a hang

Words launch_command(int workers, const Words& behaviour, const Words& flags = {}) {
  Words command = {STARLING_PROGRAM, "launch", "--workers", std::to_string(workers)};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"--", STARLING_FLOCK_WORKER});
  command.insert(command.end(), behaviour.begin(), behaviour.end());
  return command;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "there is no '" << part << "' in:\n" << text;
}

testing::AssertionResult all_say(Process& process, const std::string& words, std::size_t workers) {
  if (wait_until(kPatience, [&] { return count(process.out(), words) == workers; })) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "not all " << workers << " came to say '" << words << "'\n"
                                     << process.story();
}

testing::AssertionResult gone(Process& process) {
  if (process.gone_within(kGone)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "somebody stays behind\n" << process.story();
}

// The launcher's own verdict: the one line it begins with "error: ".
std::string verdict(const Process& process) {
  std::string found;
  for (const std::string& line : lines_of(process.err())) {
    if (!line.starts_with("error: ")) continue;
    if (!found.empty()) return "more than one verdict:\n" + process.err();
    found = line;
  }
  return found;
}

pid_t pid_of(const Process& process, int rank) {
  for (const Relative& each : process.family()) {
    if (each.variable("STARLING_RANK") == std::to_string(rank) &&
        each.command().starts_with(STARLING_FLOCK_WORKER)) {
      return each.pid;
    }
  }
  ADD_FAILURE() << "there is no rank " << rank << "\n" << process.story();
  return ::getpid() + (1 << 24);  // nobody
}

std::size_t sleepers(const Process& process) {
  std::size_t found = 0;
  for (const Relative& each : process.family()) {
    if (each.command() == "sleep 1000") ++found;
  }
  return found;
}

TEST(Launcher, EndsWellWhenAllWorkersDo) {
  for (int workers : {1, 2, 4}) {
    Process process(launch_command(workers, {"meet+finish"}));
    EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
    EXPECT_EQ(count(process.out(), "finished"), static_cast<std::size_t>(workers));
    EXPECT_EQ(process.err(), "");
    EXPECT_TRUE(gone(process));
  }
}

TEST(Launcher, TellsTheOutcomeAsJsonIfAsked) {
  Process well(launch_command(2, {"meet"}, {"--json"}));
  EXPECT_EQ(well.wait(kPatience), "exit 0") << well.story();
  const auto good = nlohmann::json::parse(lines_of(well.out()).back());
  EXPECT_EQ(good["workers"], 2);
  EXPECT_EQ(good["exit_code"], 0);
  EXPECT_EQ(good["error"], "");
  EXPECT_EQ(good["program"], STARLING_FLOCK_WORKER);
  EXPECT_FALSE(good.contains("ended"));

  Process ill(launch_command(2, {"meet+ring", "1:meet+exit"}, {"--json"}));
  EXPECT_NE(ill.wait(kPatience), "exit 0") << ill.story();
  const auto bad = nlohmann::json::parse(lines_of(ill.out()).back());
  EXPECT_EQ("exit " + bad["exit_code"].dump(), ill.wait(0ms));
  EXPECT_TRUE(contains(bad["error"], "rank 1 exited with status 3"));
  EXPECT_EQ(bad["ended"], "failed");
}

TEST(Launcher, HandsTheSettingsToTheWorkers) {
  Process process(
      launch_command(2, {"ring"}, {"--strategy", "pairwise", "--period", "4", "--timeout", "77"}));
  ASSERT_TRUE(all_say(process, "is exchanging", 2));
  for (const Relative& each : process.family()) {
    if (each.variable("STARLING_RANK").empty()) continue;
    EXPECT_TRUE(contains(each.variable("STARLING_SETTINGS"), "period = 4"));
    EXPECT_TRUE(contains(each.variable("STARLING_SETTINGS"), "workers = 2"));
    EXPECT_EQ(each.variable("STARLING_TIMEOUT_SECONDS"), "77");
  }
}

TEST(Launcher, NamesTheRankThatExitsAndItsStatus) {
  Process process(launch_command(4, {"meet+ring", "2:meet+exit"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 2 exited with status 3")) << process.err();
  EXPECT_EQ(process.err_lines_with("ends: lost 2: rank 2 was lost in ").size(), 3u)
      << process.err();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, TellsWhatAWorkerSaidOfItsEnd) {
  Process process(launch_command(3, {"meet+ring", "1:meet+throw"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 1: the data is bad; bake a new one"))
      << process.err();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, NamesTheSignalOfACrash) {
  Process process(launch_command(3, {"meet+ring", "0:meet+abort"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 0 was killed by signal 6 (Aborted)"))
      << process.err();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, EndsTheOthersWhenOneDiesBeforeItJoins) {
  for (const char* dead : {"0:die", "2:die"}) {
    Process process(launch_command(3, {"ring", dead}));
    EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
    EXPECT_TRUE(contains(verdict(process),
                         std::string("error: rank ") + dead[0] + " exited with status 5"));
    EXPECT_TRUE(gone(process));
  }
}

// Those who can do without another can do so once all have come together, not before.
TEST(Launcher, EndsAlsoWorkersThatSurviveLossesWhenOneDiesBeforeItJoins) {
  Process process(launch_command(3, {"ring", "2:die"},
                                 {"--strategy", "mix", "--graph", "mesh", "--mixing", "sum-weight",
                                  "--schedule", "async", "--timeout", "600"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(contains(verdict(process), "error: rank 2 exited with status 5"));
  EXPECT_TRUE(gone(process));
}

// On a busy machine one may be lost before another has come to say that it is there.
TEST(Launcher, LetsThoseGoOnWhoSayLateThatTheyHaveComeTogether) {
  const char* worker =
      "say() { echo '{\"event\": \"joined\"}' >&$STARLING_EVENTS_FD; }\n"
      "case $STARLING_RANK in 0) say; sleep 4;; 1) sleep 2; say; sleep 2;; 2) say; exit 5;; esac";
  Process process({STARLING_PROGRAM, "launch", "-n", "3", "--strategy", "mix", "--graph", "mesh",
                   "--mixing", "sum-weight", "--schedule", "async", "--", "bash", "-c", worker});
  EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, SharesTheCoresOutUnlessSomebodyElseHas) {
  const auto threads = [](const std::string& setting, const std::string& workers,
                          const Words& before = {}) {
    Words words = before;
    for (const char* word :
         {"/usr/bin/env", setting.c_str(), STARLING_PROGRAM, "launch", "-n", workers.c_str(), "--",
          "/bin/sh", "-c", "echo $OMP_NUM_THREADS threads"}) {
      words.emplace_back(word);
    }
    Process process(words);
    EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
    return lines_of(process.out());
  };
  const auto cores = std::to_string(own_cores().usable);
  EXPECT_EQ(threads("--unset=OMP_NUM_THREADS", "1"), Words{"[0] " + cores + " threads"});
  // To the first core alone.
  EXPECT_EQ(threads("--unset=OMP_NUM_THREADS", "1", {"/usr/bin/taskset", "1"}),
            Words{"[0] 1 threads"});
  const Words many = threads("--unset=OMP_NUM_THREADS", "100");
  EXPECT_EQ(many.size(), 100u);
  for (const std::string& line : many) EXPECT_TRUE(line.ends_with("] 1 threads")) << line;
  const Words two = threads("OMP_NUM_THREADS=7", "2");
  EXPECT_EQ(std::set(two.begin(), two.end()),
            (std::set<std::string>{"[0] 7 threads", "[1] 7 threads"}));
}

TEST(Launcher, PutsTheRankBeforeEveryLine) {
  const auto printed = [](const std::string& script) {
    Process process({STARLING_PROGRAM, "launch", "-n", "2", "--", "/bin/sh", "-c", script});
    EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
    return std::pair(process.out(), process.err());
  };
  EXPECT_EQ(printed("[ $STARLING_RANK = 1 ] && printf 'a\n\nb' && echo c >&2; true"),
            std::pair(std::string("[1] a\n[1] \n[1] b\n"), std::string("[1] c\n")));
  // A line that comes in two pieces is one; none is torn apart by another worker's.
  const auto [out, err] =
      printed("for i in 1 2 3 4 5 6 7 8 9; do printf half; sleep 0.01; echo -line; done");
  EXPECT_EQ(count(out, "[0] half-line\n"), 9u) << out;
  EXPECT_EQ(count(out, "[1] half-line\n"), 9u) << out;
  EXPECT_EQ(out.size(), 18 * std::string("[0] half-line\n").size());
}

TEST(Launcher, PrintsAllOfMuchThatIsReadLate) {
  Process process(
      {"/bin/sh", "-c", "'" STARLING_PROGRAM "' launch -n 2 -- seq 100000 | (sleep 4; wc -l)"});
  EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
  EXPECT_EQ(process.out(), "200000\n");
}

TEST(Launcher, EndsOnCtrlCThoughNobodyReadsWhatItPrints) {
  Process process({"/bin/sh", "-c",
                   "trap '' INT; (trap - INT; exec '" STARLING_PROGRAM
                   "' launch -n 2 -- yes) | (sleep 5; wc -l > /dev/null)"});
  std::this_thread::sleep_for(1s);
  process.signal_group(SIGINT);
  EXPECT_NE(process.wait(kGone), "running") << process.story();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, TellsTheLastLineOfAWorkerThatExits) {
  Process process({STARLING_PROGRAM, "launch", "-n", "2", "--", "/bin/sh", "-c",
                   "[ $STARLING_RANK = 0 ] && exit 0; echo the disk is full >&2; exit 4"});
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_EQ(verdict(process), "error: rank 1 exited with status 4, and said: the disk is full");
}

TEST(Launcher, LeavesItsInputToItself) {
  Process process({"/bin/sh", "-c", "echo a word | '" STARLING_PROGRAM "' launch -n 2 -- cat"});
  EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
  EXPECT_EQ(process.out(), "");
}

struct Exchange {
  const char* behaviour;
  const char* operation;
};
class KilledWorker : public testing::TestWithParam<Exchange> {};

TEST_P(KilledWorker, IsNamedByAllOthersAndByTheLauncher) {
  Process process(launch_command(4, {GetParam().behaviour}));
  ASSERT_TRUE(all_say(process, "is exchanging", 4));
  ::kill(pid_of(process, 2), SIGKILL);
  EXPECT_TRUE(gone(process));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  for (int rank : {0, 1, 3}) {
    const std::string words = "rank " + std::to_string(rank) +
                              " ends: lost 2: rank 2 was lost in " + GetParam().operation;
    EXPECT_EQ(process.err_lines_with(words).size(), 1u) << words << "\n" << process.err();
  }
  EXPECT_TRUE(verdict(process).starts_with("error: rank 2 was killed by signal 9 (Killed)"))
      << process.err();
  EXPECT_TRUE(
      contains(verdict(process), std::string("rank 2 was lost in ") + GetParam().operation));
}

INSTANTIATE_TEST_SUITE_P(Launcher, KilledWorker,
                         testing::Values(Exchange{"ring", "a ring all-reduce"},
                                         Exchange{"pairwise", "a pairwise exchange"},
                                         Exchange{"big-ring", "a ring all-reduce"},
                                         Exchange{"big-pairwise", "a pairwise exchange"}),
                         [](const auto& which) {
                           std::string name = which.param.behaviour;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Launcher, NoticesADeathThoughAChildStillHoldsTheSockets) {
  Process process(launch_command(3, {"child+ring"}));
  ASSERT_TRUE(all_say(process, "is exchanging", 3));
  ASSERT_TRUE(wait_until(kPatience, [&] { return sleepers(process) == 3; })) << process.story();
  ::kill(pid_of(process, 1), SIGKILL);
  EXPECT_TRUE(gone(process));
  EXPECT_EQ(process.err_lines_with("ends: lost 1: rank 1 was lost").size(), 2u) << process.err();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 1 was killed by signal 9"))
      << process.err();
}

TEST(Launcher, EndsARunWhoseWorkerIsStopped) {
  Process first(launch_command(3, {"ring"}, {"--timeout", "2"}));
  Process last(launch_command(3, {"ring"}, {"--timeout", "2"}));
  ASSERT_TRUE(all_say(first, "is exchanging", 3));
  ASSERT_TRUE(all_say(last, "is exchanging", 3));
  ::kill(pid_of(first, 0), SIGSTOP);
  ::kill(pid_of(last, 2), SIGSTOP);
  for (Process* process : {&first, &last}) {
    EXPECT_EQ(process->wait(kPatience), "exit 1") << process->story();
    EXPECT_TRUE(contains(verdict(*process), "did not finish before its deadline"));
    // The other one, if it is a moment later, finds that the first has left.
    EXPECT_EQ(process->err_lines_with(" ends: ").size(), 2u) << process->err();
    EXPECT_TRUE(gone(*process));
  }
}

TEST(Launcher, TakesItsWorkersAndTheirChildrenAlongWhenItIsKilled) {
  Process process(launch_command(4, {"child+ring"}));
  ASSERT_TRUE(all_say(process, "is exchanging", 4));
  ASSERT_TRUE(wait_until(kPatience, [&] { return sleepers(process) == 4; })) << process.story();
  process.signal(SIGKILL);
  EXPECT_TRUE(gone(process));
  EXPECT_EQ(process.wait(kPatience), "signal 9");
}

TEST(Launcher, TakesThemAlongAlsoWhenItsWholeGroupIsKilled) {
  Process process(launch_command(2, {"child+stubborn"}));
  ASSERT_TRUE(all_say(process, "is stubborn", 2));
  process.signal_group(SIGKILL);
  EXPECT_TRUE(gone(process));
}

// Whoever reads the launcher's output to its end must not wait for a forgotten writer.
TEST(Launcher, LetsGoOfItsOutputWhenItIsKilled) {
  const std::string quoted = "'" STARLING_PROGRAM "' launch -n 2 -- '" STARLING_FLOCK_WORKER
                             "' child+ring | grep -v nothing";
  Process process({"/bin/sh", "-c", quoted});
  const auto launchers = [&] {
    std::vector<pid_t> found;
    for (const Relative& each : process.family()) {
      if (each.variable("STARLING_RANK").empty() && each.command().starts_with(STARLING_PROGRAM)) {
        found.push_back(each.pid);
      }
    }
    return found;
  };
  // The launcher and its guardian, of which the older one is the launcher.
  ASSERT_TRUE(wait_until(kPatience, [&] { return sleepers(process) == 2; })) << process.story();
  ASSERT_EQ(launchers().size(), 2u) << process.story();
  // The guardian would hold it until all are ended; a while on a machine that is short of memory.
  const std::string guardian = "/proc/" + std::to_string(std::ranges::max(launchers()));
  EXPECT_TRUE(wait_until(5s, [&] {
    return !std::filesystem::is_symlink(guardian + "/fd/1") &&
           !std::filesystem::is_symlink(guardian + "/fd/2");
  }));
  ::kill(std::ranges::min(launchers()), SIGKILL);
  EXPECT_NE(process.wait(kGone), "running") << process.story();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, EndsAllOnCtrlC) {
  Process process(launch_command(4, {"child+ring"}));
  ASSERT_TRUE(all_say(process, "is exchanging", 4));
  process.signal_group(SIGINT);
  EXPECT_EQ(process.wait(kGone), "exit 130") << process.story();
  EXPECT_EQ(verdict(process), "error: interrupted by Ctrl-C");
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, EndsAllOnSigtermAndHangup) {
  for (int signal : {SIGTERM, SIGHUP}) {
    Process process(launch_command(2, {"child+ring"}));
    ASSERT_TRUE(all_say(process, "is exchanging", 2));
    process.signal(signal);
    EXPECT_EQ(process.wait(kGone), "exit " + std::to_string(128 + signal)) << process.story();
    EXPECT_TRUE(gone(process));
  }
}

// Whether a process ignores or catches a signal, as /proc tells it.
bool has_signal(pid_t pid, const std::string& set, int signal) {
  for (const std::string& line : lines_of(file_text("/proc/" + std::to_string(pid) + "/status"))) {
    if (!line.starts_with(set + ":")) continue;
    const auto bits = std::stoull(line.substr(set.size() + 1), nullptr, 16);
    return (bits >> (signal - 1) & 1) != 0;
  }
  ADD_FAILURE() << "process " << pid << " has no " << set;
  return false;
}

// As nohup does.
TEST(Launcher, LeavesAnIgnoredHangupIgnoredForItselfAndItsWorkers) {
  Words command = {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"};
  const Words launch = launch_command(3, {"ring"});
  command.insert(command.end(), launch.begin(), launch.end());
  Process process(command);
  ASSERT_TRUE(all_say(process, "is exchanging", 3));
  EXPECT_TRUE(has_signal(process.pid(), "SigIgn", SIGHUP));
  EXPECT_TRUE(has_signal(process.pid(), "SigCgt", SIGTERM));
  for (int rank : {0, 1, 2}) EXPECT_TRUE(has_signal(pid_of(process, rank), "SigIgn", SIGHUP));
  for (const Relative& each : process.family()) ::kill(each.pid, SIGHUP);
  ::kill(pid_of(process, 1), SIGKILL);
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 1 was killed by signal 9"))
      << process.err();
  EXPECT_TRUE(gone(process));
}

// Its death would not be seen if another held its listening socket.
TEST(Launcher, GivesNoWorkerASocketOrAPipeOfAnother) {
  Process process(launch_command(4, {"ring"}));
  ASSERT_TRUE(all_say(process, "is exchanging", 4));
  std::map<std::string, std::set<int>> holders;  // of each socket and pipe
  for (int rank : {0, 1, 2, 3}) {
    const std::string files = "/proc/" + std::to_string(pid_of(process, rank)) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(files)) {
      std::error_code closed;
      const std::string what = std::filesystem::read_symlink(entry.path(), closed);
      if (what.starts_with("socket:") || what.starts_with("pipe:")) holders[what].insert(rank);
    }
  }
  EXPECT_GE(holders.size(), 4u * 5u);  // each listens, has three links, and tells its events
  for (const auto& [what, ranks] : holders) {
    EXPECT_EQ(ranks.size(), 1u) << what << " is open in ranks " << *ranks.begin() << " to "
                                << *ranks.rbegin();
  }
  process.signal(SIGINT);
  EXPECT_TRUE(gone(process));
}

// In a process namespace, where numbers can be chosen: rank 0 ends, and a stranger that does not
// belong to the job gets its number, as a process and as a group. What happens to it when the rest
// of the job ends?
class ReusedNumber : public testing::TestWithParam<const char*> {};

TEST_P(ReusedNumber, OfAnEndedWorkerIsNotKilled) {
  if (::geteuid() != 0) GTEST_SKIP() << "a process namespace takes root";
  const std::string worker = R"sh(
      if [ $STARLING_RANK = 0 ]; then echo $$ > first; exit; fi
      until [ -s first ]; do sleep 0.02; done
      while kill -0 $(cat first) 2>/dev/null; do sleep 0.02; done
      read first < first
      echo $((first - 1)) > /proc/sys/kernel/ns_last_pid
      setsid sleep 1000 &
      until [ "$(cut -d ' ' -f 5 /proc/$!/stat)" = $! ]; do sleep 0.02; done
      echo $! > second
      )sh" + std::string(GetParam());
  const std::string story = R"(
      "$0" launch -n 2 -- /bin/sh -c "$1"
      while pgrep -x starling >/dev/null; do sleep 0.02; done
      [ $(cat first) = $(cat second) ] || echo the number was not taken
      grep State /proc/$(cat second)/status
      )";
  TemporaryFolder folder;
  Process process({"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "--wd=" + folder.path().string(), "/bin/sh", "-c", story, STARLING_PROGRAM,
                   worker});
  EXPECT_NE(process.wait(kPatience), "running") << process.story();
  EXPECT_TRUE(process.out().starts_with("State:")) << process.story();
  EXPECT_EQ(process.out().find("zombie"), std::string::npos) << process.out();
}

INSTANTIATE_TEST_SUITE_P(Launcher, ReusedNumber,
                         testing::Values("exit 0", "kill -KILL $PPID; sleep 1000"),
                         [](const auto& which) {
                           return std::string(which.param).starts_with("exit")
                                      ? "WhenAllHaveEnded"
                                      : "WhenTheLauncherIsKilled";
                         });

TEST(Launcher, KillsWorkersThatIgnoreSigterm) {
  Process process(launch_command(2, {"child+stubborn"}));
  ASSERT_TRUE(all_say(process, "is stubborn", 2));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(kGone), "exit 143") << process.story();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, BlamesWhoFailedAndNotWhomItHadToKill) {
  Process process(launch_command(3, {"stubborn", "2:die"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_EQ(verdict(process), "error: rank 2 exited with status 5");
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, SaysInOneLineThatThereIsNoSuchProgram) {
  Process process({STARLING_PROGRAM, "launch", "-n", "3", "--", "/no/such/program"});
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_EQ(lines_of(process.err()).size(), 1u) << process.err();
  EXPECT_TRUE(contains(verdict(process), "cannot run /no/such/program: No such file or directory"));
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, GoesOnAfterGarbageFromAWorker) {
  Process process(launch_command(3, {"garbage+huge+garbage+meet+finish"}));
  EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
  EXPECT_EQ(count(process.out(), "finished"), 3u);
  EXPECT_EQ(process.err(), "");
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, HearsAnErrorAlsoBehindAHugeLine) {
  Process process(launch_command(2, {"huge+meet+ring", "1:huge+meet+throw"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 1: the data is bad")) << process.err();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, CopesWithAnErrorThatMakesNoSense) {
  Process process(launch_command(2, {"child+meet+ring", "1:child+meet+bad-error+exit"}));
  EXPECT_EQ(process.wait(kPatience), "exit 1") << process.story();
  EXPECT_TRUE(verdict(process).starts_with("error: rank 1 exited with status 3")) << process.err();
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, ClearsUpAfterWorkersThatEndWellAndLeaveAChild) {
  Process process(launch_command(2, {"child+meet+finish"}));
  EXPECT_EQ(process.wait(kPatience), "exit 0") << process.story();
  EXPECT_EQ(count(process.out(), "finished"), 2u);
  EXPECT_TRUE(gone(process));
}

TEST(Launcher, KeepsTheSecretOffTheCommandLines) {
  Process one(launch_command(2, {"ring"}));
  Process two(launch_command(2, {"ring"}));
  ASSERT_TRUE(all_say(one, "is exchanging", 2));
  ASSERT_TRUE(all_say(two, "is exchanging", 2));
  const auto secret_of = [](const Process& process) {
    std::string secret;
    for (const Relative& each : process.family()) {
      if (secret.empty()) secret = each.variable("STARLING_SECRET");
    }
    return secret;
  };
  EXPECT_GE(secret_of(one).size(), 32u);
  EXPECT_NE(secret_of(one), secret_of(two));
  for (const Relative& each : one.family()) {
    EXPECT_EQ(each.command().find(secret_of(one)), std::string::npos) << each.command();
  }
  for (Process* process : {&one, &two}) process->signal(SIGINT);
  EXPECT_TRUE(gone(one));
  EXPECT_TRUE(gone(two));
}

class TwoLaunchers : public TwoMachines {
 protected:
  Words machine(int number, const Words& behaviour, const std::string& secret = "secret",
                const std::string& timeout = "60") {
    return launch_command(2, behaviour, machine_flags(number, secret, timeout));
  }
};

TEST_F(TwoLaunchers, WorkTogether) {
  Process second(machine(1, {"meet+finish"}));
  Process first(machine(0, {"meet+finish"}));
  EXPECT_EQ(first.wait(kPatience), "exit 0") << first.story();
  EXPECT_EQ(second.wait(kPatience), "exit 0") << second.story();
  EXPECT_EQ(count(first.out() + second.out(), "finished"), 4u);
}

TEST_F(TwoLaunchers, BothEndWhenAWorkerOfOneIsKilled) {
  Process first(machine(0, {"ring"}));
  Process second(machine(1, {"ring"}));
  ASSERT_TRUE(all_say(first, "is exchanging", 2));
  ASSERT_TRUE(all_say(second, "is exchanging", 2));
  ::kill(pid_of(second, 3), SIGKILL);
  EXPECT_TRUE(gone(first));
  EXPECT_TRUE(gone(second));
  EXPECT_TRUE(contains(verdict(first), "rank 3 was lost in a ring all-reduce"));
  EXPECT_TRUE(verdict(second).starts_with("error: rank 3 was killed by signal 9 (Killed)"))
      << second.err();
}

TEST_F(TwoLaunchers, DoNotTrustEachOtherWithoutTheSecret) {
  Process first(machine(0, {"ring"}, "secret", "2"));
  Process second(machine(1, {"ring"}, "guess", "2"));
  EXPECT_EQ(second.wait(kPatience), "exit 1") << second.story();
  EXPECT_EQ(first.wait(kPatience), "exit 1") << first.story();
  EXPECT_TRUE(contains(verdict(first), "waited 2 s for ranks 2 and 3; one from 127.0.0.1 that "));
  EXPECT_TRUE(contains(verdict(first), "was refused: it does not know this job's secret"));
  EXPECT_TRUE(contains(verdict(second), "it does not know this job's secret; give every machine"));
  for (Process* process : {&first, &second}) {
    EXPECT_FALSE(contains(process->out() + process->err(), "horse")) << "a secret is no secret";
  }
}

}  // namespace
}  // namespace starling
