// `starling train --resume`: after kills at any moment, a run that goes on ends with the bits of one
// that was never interrupted; with another number of workers, every sample is seen as often.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/random.h"
#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

Words words_in(const std::string& text) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// 600 samples, 3 workers, batches of 32: 7 steps an epoch, the last one with fewer samples.
constexpr const char* kSmall =
    "--data synthetic --samples 600 --test-samples 100 --batch 32 --lr 0.05 ";

class Resumed : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return (folder_.path() / name).string(); }
  Ran train(const std::string& words) const {
    Words all = words_in("train --json " + words);
    return starling_program(all, kTrainingPatience);
  }
  json trained(const std::string& words) const {
    const Ran ran = train(words);
    EXPECT_EQ(ran.status, "exit 0") << words << "\n" << ran.err;
    const Words lines = lines_of(ran.out);
    return lines.empty() ? json() : json::parse(lines.back(), nullptr, false);
  }
  std::string model(const std::string& run) const {
    return file_text(fs::path(in(run)) / "model.safetensors");
  }
  std::string refused(const std::string& words) const {
    const Ran ran = train(words);
    EXPECT_EQ(ran.status, "exit 1") << words;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
    return ran.err;
  }
  std::vector<fs::path> manifests(const std::string& run) const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(fs::path(in(run)) / "checkpoints", none)) {
      if (entry.path().extension() == ".json") found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }

  TemporaryFolder folder_;
};

class ResumedSystem : public Resumed, public testing::WithParamInterface<const char*> {};

// In the middle of the second epoch, and then from the end of the run.
TEST_P(ResumedSystem, EndsWithTheBitsOfARunThatWasNeverInterrupted) {
  const std::string system = fmt::format("{} {}", kSmall, GetParam());
  trained(fmt::format("{} --steps 17 --run {}", system, in("never")));
  trained(fmt::format("{} --steps 10 --checkpoint-every 4steps --run {}", system, in("run")));
  ASSERT_EQ(manifests("run").size(), 3u) << "4, 8 and the end";
  EXPECT_NE(model("run"), model("never"));
  fs::remove(manifests("run").back());  // as if it had been killed after step 9
  const json result = trained(fmt::format("--resume {} --steps 14", in("run")));
  EXPECT_EQ(result["steps"], 14);
  trained(fmt::format("--resume {} --steps 17", in("run")));
  EXPECT_EQ(model("run"), model("never"));
}

INSTANTIATE_TEST_SUITE_P(
    Systems, ResumedSystem,
    testing::Values("--strategy allreduce --model mnist-cnn",
                    "--strategy allreduce --optimizer adamw --momentum 0 --backward-passes 2",
                    "--strategy pairwise --passes 1 --model resnet --norm batch --depth 1",
                    "--strategy server --gate bsp --servers 2",
                    "--strategy server --gate bsp --servers 3 --placement workers --codec top-k",
                    "--strategy allreduce --workers 3 --pipeline 3 --micro-batches 2",
                    "--strategy pairwise --passes 1 --workers 4 --tensor 2 --model mlp"));

TEST_F(Resumed, SurvivesKillsAtAnyMoment) {
  const std::string system = fmt::format("{} --strategy allreduce --model mlp --steps 120", kSmall);
  trained(fmt::format("{} --run {}", system, in("never")));
  Random random{1};
  Words words =
      words_in(fmt::format("train {} --checkpoint-every 1steps --run {}", system, in("run")));
  int kills = 0;
  while (kills < 4) {
    words.insert(words.begin(), STARLING_PROGRAM);
    Process process(words);
    const std::size_t before = manifests("run").empty() ? 0 : 1;
    const fs::path last = before > 0 ? manifests("run").back() : fs::path();
    for (int i = 0; i < 6000; ++i) {  // until it has got on
      std::this_thread::sleep_for(10ms);
      if (!manifests("run").empty() && manifests("run").back() != last) break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60'000)));
    ::kill(process.pid(), SIGKILL);
    process.wait(10s);
    ++kills;
    words = words_in(fmt::format("train --resume {}", in("run")));
  }
  trained(fmt::format("--resume {}", in("run")));
  EXPECT_EQ(model("run"), model("never"));
  EXPECT_LE(manifests("run").size(), 3u);
  const Words rows = lines_of(file_text(fs::path(in("run")) / "metrics.jsonl"));
  double step = 0;
  for (const std::string& row : rows) {
    EXPECT_GE(json::parse(row)["step"].get<double>(), step) << "what is done again is told once";
    step = json::parse(row)["step"];
  }
}

TEST_F(Resumed, AnotherNumberSeesEverySampleAsOften) {
  for (const char* system : {"--strategy allreduce", "--strategy pairwise --passes 1",
                             "--strategy server --gate bsp --servers 2",
                             "--strategy server --gate bsp --servers 2 --placement workers "
                             "--optimizer adam --momentum 0",
                             "--strategy mix --graph star --mixing elastic --schedule async"}) {
    const std::string run = in(fmt::format("run-{}", fs::path(system).string().size()));
    trained(
        fmt::format("{} {} --steps 10 --checkpoint-every 4steps --run {}", kSmall, system, run));
    for (const int workers : {2, 4}) {
      const int epochs = workers == 2 ? 2 : 3;
      const json result = trained(
          fmt::format("--resume {} --steps 0 --epochs {} --workers {}", run, epochs, workers));
      ASSERT_TRUE(result.is_object());
      if (std::string_view(system).find("async") == std::string_view::npos) {
        EXPECT_EQ(result["samples"], epochs * 600) << system << " with " << workers;
      }
      EXPECT_EQ(result["workers"], workers);
    }
  }
}

TEST_F(Resumed, ADamagedCheckpointIsPassedOver) {
  trained(
      fmt::format("{} --strategy allreduce --model mlp --steps 9 --checkpoint-every 3steps "
                  "--run {}",
                  kSmall, in("run")));
  const fs::path folder = fs::path(in("run")) / "checkpoints";
  std::ofstream(folder / "step-9-rank-1.state", std::ios::app) << "x";
  const Ran ran = train(fmt::format("--resume {} --steps 12", in("run")));
  EXPECT_EQ(ran.status, "exit 0") << ran.err;
  EXPECT_NE(ran.err.find("step-9-rank-1.state"), std::string::npos);
  EXPECT_NE(ran.err.find("going on after step 6"), std::string::npos) << ran.err;
}

TEST_F(Resumed, WrongInputsAreRefusedInOneLine) {
  EXPECT_NE(refused(fmt::format("--resume {}", in("nowhere"))).find("there is no run in"),
            std::string::npos);
  trained(
      fmt::format("{} --strategy allreduce --model mlp --steps 2 --run {}", kSmall, in("none")));
  EXPECT_NE(refused(fmt::format("--resume {} --steps 4", in("none"))).find("no checkpoint"),
            std::string::npos);
  trained(
      fmt::format("{} --strategy allreduce --model mlp --steps 4 --checkpoint-every 2steps "
                  "--run {}",
                  kSmall, in("run")));
  EXPECT_NE(refused(fmt::format("--resume {}", in("run"))).find("has come to its end"),
            std::string::npos);
  const std::string rate = refused(fmt::format("--resume {} --steps 6 --lr 0.7", in("run")));
  EXPECT_NE(rate.find("lr = 0.7 would make another training"), std::string::npos) << rate;
  const std::string other = refused(fmt::format("--resume {} --steps 6 --model cnn3", in("run")));
  EXPECT_NE(other.find("model = "), std::string::npos) << other;
  for (const fs::path& manifest : manifests("run")) std::ofstream(manifest) << "{";
  const Ran ran = train(fmt::format("--resume {} --steps 6", in("run")));
  EXPECT_EQ(ran.status, "exit 1");
  EXPECT_NE(lines_of(ran.err).back().find("no checkpoint that is whole"), std::string::npos);
}

}  // namespace
}  // namespace starling
