// A training loop of the user's own under `starling launch`: what it leaves behind, who is blamed
// when it fails, and workers that do not have the same number of batches.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/process.h"

namespace starling {
namespace {

using nlohmann::json;
using LoopWords = std::vector<std::string>;

constexpr auto kLoopPatience = 60s;

class OwnLoop : public testing::Test {
 protected:
  std::string run() const { return (folder_.path() / "run").string(); }
  json summary() const { return json::parse(file_text(run() + "/summary.json"), nullptr, false); }

  static LoopWords launch(const LoopWords& flags, const LoopWords& loop) {
    LoopWords words = {STARLING_PROGRAM, "launch", "-n", "3"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", STARLING_FAULT_LOOP});
    words.insert(words.end(), loop.begin(), loop.end());
    return words;
  }
  static std::string last_line(const Process& process) { return lines_of(process.err()).back(); }
  // What the workers say of their models at the end.
  static std::set<std::string> models(const Process& process) {
    std::set<std::string> sums;
    for (const std::string& line : lines_of(process.out())) {
      if (const auto at = line.find(" finished "); at != std::string::npos) {
        sums.insert(line.substr(at));
      }
    }
    return sums;
  }

  TemporaryFolder folder_;
};

TEST_F(OwnLoop, LeavesARunAsTheTrainerDoes) {
  Process process(launch({"--strategy", "allreduce", "--run", run(), "--timeline", "--json"},
                         {"--steps", "60"}));
  ASSERT_EQ(process.wait(kLoopPatience), "exit 0") << process.story();
  const json told = json::parse(lines_of(process.out()).back());
  const json kept = summary();
  for (const auto& [key, value] : kept.items()) EXPECT_EQ(told[key], value) << key;
  EXPECT_EQ(told["worker_steps"], (json{60, 60, 60}));
  EXPECT_EQ(told["worker_rank"], (json{0, 1, 2}));
  EXPECT_EQ(told["steps"], 60);
  EXPECT_EQ(told["program"], STARLING_FAULT_LOOP);
  // A ring's bytes, for 60 steps and for each worker, or a little more with another exchange.
  for (const json& sent : told["training_bytes_sent"]) EXPECT_GT(sent, 60 * 1'000'000);
  EXPECT_FALSE(told.contains("ended"));
  EXPECT_NE(file_text(run() + "/metrics.jsonl").find("\"step\":"), std::string::npos);
  EXPECT_NE(file_text(run() + "/network.jsonl").find("\"rank\":2"), std::string::npos);
  const json timeline = json::parse(file_text(run() + "/timeline.json"));
  EXPECT_GT(timeline["traceEvents"].size(), 100u);
}

TEST_F(OwnLoop, SaysWhoThrewAndWhatInItsLastLine) {
  for (const char* how : {"--throw", "--catch"}) {
    for (const char* strategy : {"allreduce", "pairwise"}) {
      SCOPED_TRACE(testing::Message() << how << " " << strategy);
      Process process(launch({"--strategy", strategy}, {how, "2:20"}));
      EXPECT_EQ(process.wait(kLoopPatience), "exit 1") << process.story();
      const std::string blamed = last_line(process);
      EXPECT_TRUE(blamed.starts_with("error: rank 2")) << process.err();
      EXPECT_NE(blamed.find("the data is bad"), std::string::npos) << process.err();
      EXPECT_EQ(blamed.find("Aborted"), std::string::npos) << blamed;
      EXPECT_TRUE(process.gone_within(5s)) << process.story();
    }
  }
}

TEST_F(OwnLoop, LeavesASummaryThatSaysThatItFailed) {
  Process process(launch({"--strategy", "allreduce", "--run", run()}, {"--throw", "1:20"}));
  EXPECT_EQ(process.wait(kLoopPatience), "exit 1") << process.story();
  EXPECT_EQ(summary()["ended"], "failed");
  EXPECT_TRUE(summary()["reason"].get<std::string>().starts_with("rank 1: the data is bad"));
  EXPECT_GE(summary()["steps"], 19) << summary();
  EXPECT_LE(summary()["steps"], 21) << summary();
}

TEST_F(OwnLoop, LeavesASummaryThatSaysThatItWasInterrupted) {
  for (int signal : {SIGINT, SIGTERM}) {
    Process process(launch({"--strategy", "pairwise", "--run", run()}, {"--steps", "100000"}));
    ASSERT_TRUE(wait_until(kLoopPatience, [&] {
      return process.out().find("step 50") != std::string::npos;
    })) << process.story();
    process.signal(signal);
    EXPECT_EQ(process.wait(20s), "exit " + std::to_string(128 + signal)) << process.story();
    EXPECT_TRUE(process.gone_within(5s)) << process.story();
    EXPECT_EQ(summary()["ended"], "interrupted");
    EXPECT_GE(summary()["steps"], 20) << summary();
    EXPECT_TRUE(last_line(process).starts_with("error: interrupted by ")) << process.err();
  }
}

TEST_F(OwnLoop, SaysInWordsThatAWorkerMadeFewerSteps) {
  for (const char* strategy : {"allreduce", "pairwise", "server"}) {
    SCOPED_TRACE(strategy);
    Process process(launch({"--strategy", strategy, "--timeout", "600"},
                           {"--steps", "40", "--run-out", "1:30"}));
    EXPECT_EQ(process.wait(kLoopPatience), "exit 1") << process.story();
    const std::string blamed = last_line(process);
    EXPECT_NE(blamed.find("rank 1 ended after 30 steps, and this worker is in step 31"),
              std::string::npos)
        << process.err();
    EXPECT_NE(blamed.find("expect_uneven_inputs()"), std::string::npos) << blamed;
  }
}

TEST_F(OwnLoop, GoesOnWhenAWorkerRunsOutOfDataAndJoins) {
  for (const LoopWords& system : {LoopWords{"--strategy", "allreduce"},
                                  {"--strategy", "pairwise", "--period", "3"},
                                  {"--strategy", "local"},
                                  {"--system", "gosgd"},
                                  {"--system", "distbelief"}}) {
    SCOPED_TRACE(system[1]);
    LoopWords flags = system;
    flags.insert(flags.end(), {"--json"});
    Process process(launch(flags, {"--steps", "40", "--run-out", "1:25", "--join", "all"}));
    EXPECT_EQ(process.wait(kLoopPatience), "exit 0") << process.story();
    EXPECT_EQ(models(process).size(), 1u) << process.out();
  }
}

TEST_F(OwnLoop, RefusesUnevenInputsWhereEverybodyIsWaitedFor) {
  for (const LoopWords& system :
       {LoopWords{"--strategy", "server", "--gate", "bsp"}, {"--strategy", "ring-leader"}}) {
    Process process(launch(system, {"--steps", "40", "--join", "all"}));
    EXPECT_EQ(process.wait(kLoopPatience), "exit 1") << process.story();
    EXPECT_NE(last_line(process).find("needs every worker's gradient in every step"),
              std::string::npos)
        << process.err();
  }
}

}  // namespace
}  // namespace starling
