// Elastic trainings as their users meet them: real workers that are killed, join and leave.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "launch/job_folder.h"
#include "tests/cli/starling_program.h"
#include "tests/cli/two_machines.h"

namespace starling {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class ElasticTraining : public testing::Test {
 protected:
  Words words(const Words& more, const char* epochs = "6") {
    Words all = {STARLING_PROGRAM, "train",      "--json", "--data",  "synthetic", "--samples",
                 "4000",           "--epochs",   epochs,   "--batch", "32",        "--elastic",
                 "--run",          run_.string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // The processes that a launcher has now with that word in their command, in the order in which they
  // were started.
  static std::vector<pid_t> children_of(pid_t launcher, const std::string& word) {
    std::vector<pid_t> found;
    std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", launcher));
    for (pid_t child = 0; file >> child;) {
      std::ifstream command(fmt::format("/proc/{}/cmdline", child));
      for (std::string text; std::getline(command, text, '\0');) {
        if (text.ends_with(word)) found.push_back(child);
      }
    }
    return found;
  }
  static std::vector<pid_t> workers_of(pid_t launcher) {
    return children_of(launcher, "starling-trainer");
  }

  // Until so many steps are done.
  void until_step(int step) {
    const auto deadline = std::chrono::steady_clock::now() + kTrainingPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream file(run_ / "metrics.jsonl");
      for (std::string line; std::getline(file, line);) {
        const json event = json::parse(line, nullptr, false);
        if (event.is_object() && event.value("step", 0) >= step) return;
      }
      std::this_thread::sleep_for(20ms);
    }
    ADD_FAILURE() << "it did not come to step " << step;
  }

  std::string secret_file() {
    const std::filesystem::path secret = folder_.path() / "secret";
    std::ofstream(secret) << "a secret for those who join\n";
    std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
    return secret.string();
  }
  // What to say on each of two machines, with a worker each.
  std::function<Words(int)> machines(const Words& more) {
    Words all = words(more);
    const Words where = {
        "--workers",     "2",           "--machines", "2", "--rendezvous", free_address(),
        "--secret-file", secret_file(), "--machine"};
    all.insert(all.end(), where.begin(), where.end());
    return [all](int machine) {
      Words here = all;
      here.push_back(std::to_string(machine));
      return here;
    };
  }

  static void until_joined(Process& join) {
    EXPECT_TRUE(wait_until(kTrainingPatience, [&] {
      return join.err().find("has joined") != std::string::npos;
    })) << join.err();
  }

  // The newest checkpoint's list; nothing if there is none.
  json checkpoint() const {
    std::filesystem::path newest;
    std::error_code none;
    for (const auto& each : std::filesystem::directory_iterator(run_ / "checkpoints", none)) {
      if (each.path().extension() == ".json") newest = std::max(newest, each.path());
    }
    return json::parse(file_text(newest), nullptr, false);
  }
  // Two more, so that one of them was begun after now.
  void until_two_more_checkpoints() {
    json last = checkpoint();
    for (int more = 0; more < 2; ++more) {
      EXPECT_TRUE(wait_until(kTrainingPatience,
                             [&] {
                               const json now = checkpoint();
                               return now.is_object() &&
                                      (!last.is_object() || now["number"] > last["number"]);
                             }))
          << "there is none after " << last;
      last = checkpoint();
    }
  }

  static json summary_of(const std::string& out) {
    const Words lines = lines_of(out);
    return lines.empty() ? json() : json::parse(lines.back(), nullptr, false);
  }

  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_.path() / "run";
  // A launcher's only worker would take all cores, which others have, too.
  const Words one_thread = {"OMP_NUM_THREADS=1"};
  // And no other job is found there.
  const Words own = {one_thread[0], "XDG_RUNTIME_DIR=" + folder_.path().string()};
};

// The first is rank 0, which nobody needs more than any other.
class ElasticSystem : public ElasticTraining, public testing::WithParamInterface<const char*> {};

TEST_P(ElasticSystem, GoesOnWithoutWhoIsKilledAndStartsItAgain) {
  Process train(words({"--system", GetParam(), "--workers", "3", "--restarts", "5"}));
  until_step(8);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 3u);
  ::kill(workers[0], SIGKILL);
  until_step(40);
  EXPECT_EQ(workers_of(train.pid()).size(), 3u);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
  const json result = summary_of(train.out());
  ASSERT_TRUE(result.is_object()) << train.out();
  EXPECT_GT(result["accuracy"], 0.8) << result;
}
INSTANTIATE_TEST_SUITE_P(Trained, ElasticSystem,
                         testing::Values("horovod", "pairwise", "huawei-ring", "gosgd", "easgd"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(ElasticTraining, GoesOnWithoutAServerAndStartsItAgain) {
  Process train(words({"--strategy", "server", "--gate", "bsp", "--servers", "2", "--replicas", "2",
                       "--workers", "2", "--restarts", "5"}));
  until_step(8);
  const std::vector<pid_t> servers = children_of(train.pid(), "serve");
  ASSERT_EQ(servers.size(), 2u);
  ::kill(servers[0], SIGKILL);
  until_step(40);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
  const json result = summary_of(train.out());
  ASSERT_TRUE(result.is_object()) << train.out();
  EXPECT_GT(result["accuracy"], 0.8) << result;
}

// Its last start is let in, though those before it were killed while they still came up.
TEST_F(ElasticTraining, StartsAgainWhoIsKilledBeforeItIsLetIn) {
  Process train(words({"--system", "pairwise", "--workers", "2", "--restarts", "5"}, "100000"));
  until_step(8);
  const std::vector<pid_t> first = workers_of(train.pid());
  ASSERT_EQ(first.size(), 2u);
  pid_t newest = first[1];
  for (int kills = 0; kills < 3; ++kills) {
    const pid_t killed = newest;
    ::kill(killed, SIGKILL);
    const auto comes_another = [&] {
      for (const pid_t each : workers_of(train.pid())) {
        if (each != first[0] && each != killed) newest = each;
      }
      return newest != killed;
    };
    ASSERT_TRUE(wait_until(kTrainingPatience, comes_another)) << kills << "\n" << train.err();
  }
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
}

// Of each family one; the servers of one are processes of their own, which nobody starts again once they
// have ended well.
class ElasticEnd : public ElasticTraining, public testing::WithParamInterface<const char*> {};

TEST_P(ElasticEnd, ComesWithoutWhoDiesWhenTheTrainingIsOver) {
  Process train(words({"--system", GetParam(), "--workers", "3", "--evaluate-every", "0"}, "2"),
                {"LD_PRELOAD=" STARLING_DYING_ARGMAX, "DIES_RANK=0"});
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
  const json result = summary_of(train.out());
  ASSERT_TRUE(result.is_object()) << train.out();
  EXPECT_GT(result["accuracy"], 0.5) << result;
  EXPECT_NE(train.err().find("rank 0 was killed"), std::string::npos) << train.err();
  EXPECT_TRUE(std::filesystem::exists(run_ / "model.safetensors"));
}
INSTANTIATE_TEST_SUITE_P(Trained, ElasticEnd,
                         testing::Values("horovod", "pairwise", "huawei-ring", "gosgd", "easgd",
                                         "parameter-server"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(ElasticTraining, LeavesItsModelWhereTooFewAreLeft) {
  Process train(words(
      {"--system", "horovod", "--workers", "2", "--min-workers", "2", "--timeout", "4"}, "100000"));
  until_step(8);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[0], SIGKILL);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 1") << train.err();
  EXPECT_NE(train.err().find("no generation after 1 came together and got on within 40 s"),
            std::string::npos)
      << train.err();
  EXPECT_TRUE(std::filesystem::exists(run_ / "model.safetensors"));
}

// Who waits for others is in no step after which it could look up.
TEST_F(ElasticTraining, LeavesItsModelOnCtrlCWhereTooFewAreLeft) {
  Process train(
      words({"--system", "horovod", "--workers", "2", "--min-workers", "2", "--restarts", "0"},
            "100000"));
  until_step(8);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[1], SIGKILL);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(train.wait(0ms), "running") << train.err();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
  EXPECT_TRUE(std::filesystem::exists(run_ / "model.safetensors")) << train.err();
}

TEST_F(ElasticTraining, GoesOnWithoutAServerThatWasAskedToLeave) {
  const std::string secret = secret_file();
  Process train(words({"--strategy", "server", "--gate", "bsp", "--servers", "2", "--workers", "2",
                       "--restarts", "5", "--secret-file", secret},
                      "100000"),
                {"XDG_RUNTIME_DIR=" + folder_.path().string()});
  until_step(8);
  std::vector<JobDoor> doors;
  for (const auto& each : std::filesystem::directory_iterator(folder_.path() / "starling")) {
    doors = read_doors(each.path());
  }
  ASSERT_EQ(doors.size(), 4u);  // servers behind the workers
  const Ran leave = starling_program({"leave", doors[3].door, "--secret-file", secret});
  EXPECT_EQ(leave.status, "exit 0") << leave.err;
  EXPECT_TRUE(wait_until(kTrainingPatience, [&] {
    return children_of(train.pid(), "serve").size() == 1;
  })) << train.err();
  // The training is not over by that: who is lost is started again.
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[1], SIGKILL);
  EXPECT_TRUE(wait_until(kTrainingPatience, [&] {
    const std::vector<pid_t> now = workers_of(train.pid());
    return now.size() == 2 && now[1] != workers[1];
  })) << train.err();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
}

TEST_F(ElasticTraining, LetsWorkersJoinAndLeave) {
  const std::string secret = secret_file();
  Process train(words({"--system", "horovod", "--workers", "2", "--secret-file", secret}), own);
  until_step(8);
  EXPECT_EQ(Process({STARLING_PROGRAM, "status", "--ready"}, own).wait(30s), "exit 0");
  Process status({STARLING_PROGRAM, "status", "--json"}, own);
  EXPECT_EQ(status.wait(30s), "exit 0");
  const json doors = json::parse(status.out())["jobs"].at(0)["doors"];
  EXPECT_EQ(doors.size(), 2u) << doors;
  // As on another machine, to which a door and the secret must be told.
  Process join({STARLING_PROGRAM, "join", doors.at(0).get<std::string>(), "--secret-file", secret},
               own);
  until_joined(join);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[1], SIGTERM);  // as a machine that will be gone soon tells it
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
  EXPECT_EQ(join.wait(kTrainingPatience), "exit 0") << join.err();
  EXPECT_GT(summary_of(train.out())["accuracy"], 0.8);
}

// As a cloud's, which a script looks for.
TEST_F(ElasticTraining, LeavesAMachineThatGoesSoon) {
  const std::filesystem::path notice = folder_.path() / "notice", script = folder_.path() / "ask";
  std::ofstream(script) << "#!/bin/sh\ntest -e " << notice.string() << "\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Process train(words({"--system", "horovod", "--workers", "2"}, "100000"), own);
  until_step(8);
  Process join({STARLING_PROGRAM, "join", "--workers", "2", "--spot-notice", script.string(),
                "--restarts", "5"},
               own);
  EXPECT_TRUE(wait_until(kTrainingPatience, [&] {
    return join.err_lines_with("has joined").size() == 2;
  })) << join.err();
  EXPECT_EQ(join.err().find("goes soon"), std::string::npos) << join.err();
  std::ofstream(notice) << "soon\n";
  EXPECT_EQ(join.wait(kTrainingPatience), "exit 0") << join.err();
  EXPECT_EQ(join.err_lines_with("goes soon").size(), 1u) << join.err();
  EXPECT_EQ(join.err_lines_with("has left").size(), 2u) << join.err();
  EXPECT_EQ(train.wait(0ms), "running") << train.err();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
}

// The others have no launcher here, so it must know them from what its own worker was told.
TEST_F(ElasticTraining, StartsTheOnlyWorkerOfAMachineAgain) {
  const auto on = machines({"--system", "pairwise", "--restarts", "5"});
  Process first(on(0), one_thread), second(on(1), one_thread);
  until_step(8);
  const std::vector<pid_t> workers = workers_of(second.pid());
  ASSERT_EQ(workers.size(), 1u) << second.err();
  ::kill(workers[0], SIGKILL);
  until_step(60);
  EXPECT_EQ(workers_of(second.pid()).size(), 1u) << second.err();
  EXPECT_EQ(first.wait(kTrainingPatience), "exit 0") << first.err();
  EXPECT_EQ(second.wait(kTrainingPatience), "exit 0") << second.err();
  EXPECT_GT(summary_of(first.out())["accuracy"], 0.8);
}

// No machine has a shard and its copy.
TEST_F(ElasticTraining, GoesOnWithoutAMachineThatHasAServer) {
  const auto on =
      machines({"--strategy", "server", "--gate", "bsp", "--servers", "2", "--replicas", "2"});
  Process first(on(0), one_thread), second(on(1), one_thread);
  until_step(8);
  EXPECT_EQ(children_of(first.pid(), "serve").size(), 1u);
  EXPECT_EQ(children_of(second.pid(), "serve").size(), 1u);
  second.signal(SIGKILL);
  EXPECT_EQ(first.wait(kTrainingPatience), "exit 0") << first.err();
  EXPECT_GT(summary_of(first.out())["accuracy"], 0.8);
}

// The one that began, too; then the training is that of those who have come.
TEST_F(ElasticTraining, SaysThatTheWorkersOfItsMachineHaveLeft) {
  Process train(words({"--system", "horovod", "--workers", "1"}), own);
  until_step(8);
  Process join({STARLING_PROGRAM, "join"}, own);
  until_joined(join);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 1u);
  ::kill(workers[0], SIGTERM);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
  EXPECT_EQ(summary_of(train.out())["ended"], "left") << train.out();
  EXPECT_EQ(join.wait(kTrainingPatience), "exit 0") << join.err();
}

// Nobody is left who could go on.
TEST_F(ElasticTraining, FailsIfTheLastIsLostThoughAnotherHasLeft) {
  Process train(words({"--system", "horovod", "--workers", "2"}, "100000"));
  until_step(8);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[0], SIGTERM);
  EXPECT_TRUE(wait_until(kTrainingPatience, [&] { return workers_of(train.pid()).size() == 1; }));
  ::kill(workers[1], SIGKILL);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 1") << train.err();
  EXPECT_NE(train.err().find("rank 1 was killed by signal 9"), std::string::npos) << train.err();
}

// As when its user logs out.
TEST_F(ElasticTraining, StartsAWorkerAgainWhereThereIsNoFolderForJobsAnyMore) {
  const std::filesystem::path runtime = folder_.path() / "runtime";
  std::filesystem::create_directory(runtime);
  Process train(words({"--system", "pairwise", "--workers", "2", "--restarts", "5"}),
                {"XDG_RUNTIME_DIR=" + runtime.string()});
  until_step(8);
  std::filesystem::remove_all(runtime);
  const std::vector<pid_t> workers = workers_of(train.pid());
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[1], SIGKILL);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
  EXPECT_EQ(train.err_lines_with("will not see worker 1").size(), 1u) << train.err();
  EXPECT_GT(summary_of(train.out())["accuracy"], 0.8);
}

// As a container's, which is known before it is there.
TEST_F(ElasticTraining, AsksAWorkerToLeaveAtTheDoorThatItWasGiven) {
  const std::string secret = secret_file();
  const std::string door = free_address();
  Process train(words({"--system", "pairwise", "--workers", "2", "--secret-file", secret}), own);
  until_step(8);
  Process join({STARLING_PROGRAM, "join"},
               {own[0], own[1], "STARLING_DOOR_PORT=" + door.substr(door.find(':') + 1)});
  until_joined(join);
  const Ran leave = starling_program({"leave", door, "--secret-file", secret});
  EXPECT_EQ(leave.status, "exit 0") << leave.err;
  EXPECT_EQ(join.wait(kTrainingPatience), "exit 0") << join.err();
  EXPECT_NE(join.err().find("has left"), std::string::npos) << join.err();
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 0") << train.err();
}

// Whoever comes has what the others have: the checkpoint that these went on from may be gone by then. In
// the end only such are left, and they know for how many workers batches were cut.
TEST_F(ElasticTraining, LetsOthersIntoOneThatHasGoneOnFromACheckpoint) {
  Process before(
      words({"--system", "horovod", "--workers", "3", "--checkpoint-every", "10steps"}, "1"));
  ASSERT_EQ(before.wait(kTrainingPatience), "exit 0") << before.err();
  Process train({STARLING_PROGRAM, "train", "--json", "--resume", run_.string(), "--workers", "2",
                 "--epochs", "100000", "--restarts", "2"},
                own);
  until_step(100);
  const std::vector<pid_t> first = workers_of(train.pid());
  ASSERT_EQ(first.size(), 2u) << train.err();
  for (const pid_t each : first) {
    ::kill(each, SIGKILL);
    until_two_more_checkpoints();
    EXPECT_TRUE(wait_until(kTrainingPatience, [&] { return checkpoint()["workers"] == 2; }))
        << train.err();
  }
  Process join({STARLING_PROGRAM, "join"}, own);
  until_joined(join);
  EXPECT_TRUE(wait_until(kTrainingPatience, [&] { return checkpoint()["workers"] == 3; }))
      << train.err();
  for (const pid_t each : workers_of(join.pid())) ::kill(each, SIGTERM);
  EXPECT_EQ(join.wait(kTrainingPatience), "exit 0") << join.err();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
  const json last = json::parse(lines_of(file_text(run_ / "metrics.jsonl")).back());
  // 4000 samples in batches of 3 x 32
  EXPECT_NEAR(last["step"].get<double>() / last["epoch"].get<double>(), 42, 0.1) << last;
}

TEST_F(ElasticTraining, KeepsCheckpointsWithAWorkerThatHasJoined) {
  Process train(
      words({"--system", "horovod", "--workers", "2", "--checkpoint-every", "1s", "--timeout", "5"},
            "100000"),
      own);
  until_step(8);
  Process join({STARLING_PROGRAM, "join"}, own);
  until_joined(join);
  until_two_more_checkpoints();
  EXPECT_EQ(checkpoint()["workers"], 3);
  EXPECT_EQ(checkpoint()["files"].size(), 2u) << "who has joined keeps none";
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
  EXPECT_NE(join.wait(kTrainingPatience), "running") << join.err();
  Process again({STARLING_PROGRAM, "train", "--json", "--resume", run_.string()});
  until_two_more_checkpoints();
  again.signal(SIGINT);
  EXPECT_EQ(again.wait(kTrainingPatience), "exit 130") << again.err();
}

// Of those who go step by step, with servers, and of those who wait for nobody.
class ElasticCheckpoints : public ElasticTraining, public testing::WithParamInterface<Words> {};

TEST_P(ElasticCheckpoints, AreKeptWithoutWhoIsKilledAndWithWhoComesBack) {
  for (const char* restarts : {"0", "5"}) {
    run_ = folder_.path() / restarts;
    Words more = GetParam();
    more.insert(more.end(), {"--workers", "3", "--checkpoint-every", "1s", "--restarts", restarts});
    Process train(words(more, "100000"));
    until_two_more_checkpoints();
    const std::vector<pid_t> workers = workers_of(train.pid());
    const std::vector<pid_t> servers = children_of(train.pid(), "serve");
    ASSERT_EQ(workers.size(), 3u);
    ::kill(workers[0], SIGKILL);
    if (!servers.empty()) ::kill(servers[0], SIGKILL);
    until_two_more_checkpoints();
    if (restarts == std::string("5")) {
      EXPECT_TRUE(wait_until(kTrainingPatience, [&] { return checkpoint()["workers"] == 3; }))
          << train.err();
    }
    const json last = checkpoint();
    EXPECT_EQ(last["files"].size(), last["workers"].get<int>() + last["servers"].get<int>())
        << last;
    train.signal(SIGINT);
    EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
  }
}
INSTANTIATE_TEST_SUITE_P(Trained, ElasticCheckpoints,
                         testing::Values(Words{"--system", "easgd"},
                                         Words{"--strategy", "server", "--gate", "bsp", "--servers",
                                               "2", "--replicas", "2"}),
                         [](const auto& each) { return each.index == 0 ? "Easgd" : "Servers"; });

TEST_F(ElasticTraining, SaysInOneLineWhatCannotBe) {
  const std::vector<Words> wrong = {
      {"train", "--elastic", "--pipeline", "2"},
      {"train", "--elastic", "--workers", "2", "--tensor", "2"},
      {"train", "--elastic", "--shards", "label"},
      {"train", "--elastic", "--workers", "2", "--min-workers", "3"},
      {"train", "--elastic", "--workers", "4", "--max-workers", "3"},
      {"train", "--min-workers", "2"},
      {"train", "--data", "synthetic", "--run", run_.string(), "--spot-notice", "true"},
      {"join", "127.0.0.1:9"},
      {"join", "127.0.0.1:9", "--secret-file", "/nowhere"},
      {"leave", "127.0.0.1:9"},
  };
  for (const Words& each : wrong) {
    const Ran ran = starling_program(each);
    EXPECT_NE(ran.status, "exit 0");
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
  }
}

}  // namespace
}  // namespace starling
