// Elastic trainings whose roster is kept in a real etcd: found there by who joins, and started once more
// when all have gone.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launch/roster_store.h"
#include "tests/cli/starling_program.h"
#include "tests/etcd_server.h"

namespace starling {
namespace {

using nlohmann::json;

class StoredTraining : public testing::Test {
 protected:
  using Words = std::vector<std::string>;

  void SetUp() override {
    if (!EtcdServer::is_installed()) GTEST_SKIP() << EtcdServer::kMissing;
    server_.emplace();
    for (const char* name : {"secret", "guess"}) {
      std::ofstream(folder_.path() / name) << "the word in the file " << name << "\n";
      ::chmod((folder_.path() / name).c_str(), 0600);
    }
  }

  std::string secret(const char* name = "secret") { return (folder_.path() / name).string(); }
  Words train(const Words& more, const char* who = "secret") {
    Words all = {"train",     "--json",  "--data",    "synthetic",     "--samples",
                 "4000",      "--batch", "32",        "--system",      "horovod",
                 "--workers", "2",       "--elastic", "--secret-file", secret(who)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Words at_store(Words words) {
    words.insert(words.end(), {"--store", server_->url("job")});
    return words;
  }
  static Words program(Words words) {
    words.insert(words.begin(), STARLING_PROGRAM);
    return words;
  }
  RosterStore store() { return RosterStore(server_->url("job"), "the word in the file secret"); }

  bool comes_to_step(const std::filesystem::path& run, int step) {
    return wait_until(kTrainingPatience, [&] {
      std::ifstream file(run / "metrics.jsonl");
      for (std::string line; std::getline(file, line);) {
        const json event = json::parse(line, nullptr, false);
        if (event.is_object() && event.value("step", 0) >= step) return true;
      }
      return false;
    });
  }
  bool says(const Process& process, const std::string& part) {
    return wait_until(kTrainingPatience,
                      [&] { return process.err().find(part) != std::string::npos; });
  }
  static json summary_of(const Process& process) {
    const Words lines = lines_of(process.out());
    return lines.empty() ? json() : json::parse(lines.back(), nullptr, false);
  }
  // In each of which a training would begin otherwise.
  void expect_one_line(const Words& words, const std::string& part) {
    const Ran ran = starling_program(words);
    EXPECT_NE(ran.status, "exit 0");
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
    EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
  }

  TemporaryFolder folder_;
  std::string run_ = (folder_.path() / "run").string();
  std::optional<EtcdServer> server_;
};

TEST_F(StoredTraining, IsFoundByWhoJoinsAndGoesOnWhileTheStoreIsAway) {
  Process train(program(at_store(this->train({"--epochs", "100000", "--run", run_}))));
  ASSERT_TRUE(comes_to_step(run_, 8)) << train.err();
  EXPECT_TRUE(wait_until(60s, [&] { return store().doors().size() == 2; }));
  expect_one_line(at_store(this->train({})), "runs, with 2 members");
  expect_one_line(at_store({"join", "--secret-file", secret("guess")}), "another secret");
  Process join(program(at_store({"join", "--secret-file", secret()})));
  EXPECT_TRUE(says(join, "has joined")) << join.err();
  EXPECT_TRUE(wait_until(60s, [&] { return store().doors().size() == 3; }));
  EXPECT_TRUE(wait_until(60s, [&] { return store().read().job.doors.size() == 3; }));
  const std::uint64_t generation = store().read().job.generation;

  server_->kill();
  EXPECT_TRUE(says(train, "the training goes on")) << train.err();
  join.signal(SIGKILL);  // so that there is something to write
  EXPECT_EQ(join.wait(10s), "signal 9");
  server_->start();
  EXPECT_TRUE(says(train, "is back")) << train.err();
  EXPECT_TRUE(wait_until(60s, [&] { return store().read().job.generation > generation; }));
  EXPECT_EQ(store().read().job.doors.size(), 2u);
  EXPECT_TRUE(wait_until(60s, [&] { return store().doors().size() == 2; }));  // its lease has ended
  EXPECT_EQ(train.err_lines_with("the training goes on").size(), 1u) << train.err();

  train.signal(SIGINT);  // it has not come to its end, so it may be started again
  EXPECT_EQ(train.wait(kTrainingPatience), "exit 130") << train.err();
  EXPECT_TRUE(store().doors().empty());
  EXPECT_FALSE(store().read().job.ended);
}

TEST_F(StoredTraining, ComesBackWhenAllHaveBeenKilled) {
  const Words command =
      program(at_store(train({"--epochs", "20", "--checkpoint-every", "100ms", "--run", run_})));
  {
    Process first(command);
    const auto has_checkpoint = [&] {
      std::error_code none;
      for (const auto& entry :
           std::filesystem::directory_iterator(std::filesystem::path(run_) / "checkpoints", none)) {
        if (entry.path().extension() == ".json") return true;
      }
      return false;
    };
    EXPECT_TRUE(wait_until(kTrainingPatience, has_checkpoint)) << first.err();
    for (const Relative& each : first.family()) ::kill(each.pid, SIGKILL);
    EXPECT_TRUE(first.gone_within(10s)) << first.family_text();
  }
  server_->kill();  // its machine was restarted, too
  server_->start();
  Words elsewhere = train({"--checkpoint-every", "1s", "--run", run_});
  elsewhere.insert(elsewhere.end(), {"--store", server_->url("nothing")});
  expect_one_line(elsewhere, "does not know");
  expect_one_line(at_store(train({"--checkpoint-every", "1s", "--run", run_ + "2"})), run_);
  Process second(command);
  EXPECT_EQ(second.wait(kTrainingPatience), "exit 0") << second.err();
  EXPECT_EQ(second.err_lines_with("is started once more").size(), 1u) << second.err();
  EXPECT_EQ(second.err_lines_with("going on after step").size(), 1u) << second.err();
  const json result = summary_of(second);
  ASSERT_TRUE(result.is_object()) << second.out();
  EXPECT_GT(result["accuracy"], 0.8) << result;
  EXPECT_EQ(result["steps"], 20 * 63)
      << result;  // 4000 samples, 32 of them with each of two workers
  EXPECT_EQ(store().read().job.start, 2u);
  EXPECT_TRUE(store().read().job.ended);
  expect_one_line(at_store({"join", "--secret-file", secret()}), "has come to its end");
}

TEST_F(StoredTraining, SaysInOneLineWhatCannotBe) {
  const std::string nobody = free_address();
  for (Words words : {train({}), Words{"join", "--secret-file", secret()},
                      Words{"launch", "--elastic", "--secret-file", secret(), "--", "true"}}) {
    const auto with_store = [&](const std::string& url) {
      Words all = words;
      all.insert(all.begin() + 1, {"--store", url});
      return all;
    };
    expect_one_line(with_store("etcd:/10.0.0.1"), "is no store");
    expect_one_line(with_store("etcd://" + nobody), nobody);
  }
  expect_one_line(at_store({"join", "--secret-file", secret()}), "knows of no job");
  expect_one_line(at_store({"join", "127.0.0.1:9", "--secret-file", secret()}), "--store");
  expect_one_line(at_store({"join"}), "--secret-file");
  expect_one_line(at_store({"train", "--data", "synthetic", "--elastic"}), "--secret-file");
  expect_one_line(at_store({"train", "--data", "synthetic", "--secret-file", secret()}),
                  "--elastic");
  expect_one_line(at_store(train({"--machines", "2", "--machine", "0", "--rendezvous", nobody})),
                  "--run");
  EXPECT_TRUE(store().write({1, 2, {}, "", false}, 0));
  expect_one_line(at_store(train({}, "guess")), "another secret");
}

}  // namespace
}  // namespace starling
