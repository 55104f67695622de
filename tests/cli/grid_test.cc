// Copies of a model that each live on two workers, in systems of every kind, on real processes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

using Tensors = std::map<std::string, std::vector<float>>;

// What a model file has, by name; the shapes stand in the names.
Tensors tensors_of(const std::string& file) {
  const std::string bytes = file_text(file);
  std::uint64_t header = 0;
  if (bytes.size() < sizeof header) return {};
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t data = sizeof header + header;
  const json described = json::parse(bytes.substr(sizeof header, header), nullptr, false);
  Tensors tensors;
  for (const auto& [name, tensor] : described.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    EXPECT_LE(data + end, bytes.size()) << name;
    std::vector<float>& values = tensors[name + " " + tensor["shape"].dump()];
    values.resize((end - begin) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + data + begin, end - begin);
  }
  return tensors;
}

class GridOfWorkers : public testing::Test {
 protected:
  struct Trained {
    json summary;
    Tensors model;
  };
  Trained trained(const std::string& name, const Words& how) const {
    SCOPED_TRACE(name);
    const std::string run = (folder_.path() / name).string();
    const Ran ran =
        starling_program(Words{"train", "--json", "--run", run} + how, kTrainingPatience);
    EXPECT_EQ(ran.status, "exit 0") << ran.err;
    return {json::parse(file_text(run + "/summary.json"), nullptr, false),
            tensors_of(run + "/model.safetensors")};
  }

  // Two copies on four workers come to the whole model; where all is in step, to the same one as two
  // workers without a grid.
  void expect_whole(const std::string& name, const Words& how, bool same) const {
    const Trained plain = trained(name, how + Words{"--workers", "2"});
    ASSERT_FALSE(plain.model.empty());
    for (const std::string axis : {"pipeline", "tensor"}) {
      SCOPED_TRACE(name + ", " + axis);
      const Trained grid =
          trained(name + "-" + axis, how + Words{"--workers", "4", "--" + axis, "2"});
      ASSERT_TRUE(grid.summary.is_object());
      EXPECT_EQ(grid.summary["parameters"], plain.summary["parameters"]);
      EXPECT_TRUE(std::isfinite(grid.summary["loss"].get<double>()));
      ASSERT_EQ(grid.model.size(), plain.model.size());
      for (const auto& [tensor, values] : plain.model) {
        ASSERT_TRUE(grid.model.contains(tensor)) << tensor;
        const std::vector<float>& others = grid.model.at(tensor);
        ASSERT_EQ(others.size(), values.size()) << tensor;
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_TRUE(std::isfinite(others[i])) << tensor;
          if (same) {
            ASSERT_NEAR(others[i], values[i], 1e-4) << tensor << " at " << i;
          }
        }
      }
      if (same) {
        EXPECT_NEAR(grid.summary["loss"].get<double>(), plain.summary["loss"].get<double>(), 1e-4);
      }
    }
  }

  // Sentences of a few words, which a small network learns a little of in a few steps.
  std::string text_folder() const {
    std::filesystem::create_directories(folder_.path() / "text");
    std::ofstream file(folder_.path() / "text" / "small.txt");
    for (int i = 0; i < 2000; ++i) {
      file << "the " << (i % 3 == 0 ? "bird" : "flock") << " turns "
           << (i % 7 == 0 ? "left" : "right") << " at " << i << ".\n";
    }
    return (folder_.path() / "text").string();
  }

  TemporaryFolder folder_;
};

const Words kDigits = {"--data", "synthetic", "--samples", "600",     "--model",
                       "mlp",    "--batch",   "30",        "--steps", "12"};

TEST_F(GridOfWorkers, LearnsWhatAsManyCopiesLearnInEverySystemInStep) {
  expect_whole("horovod", Words{"--system", "horovod"} + kDigits, true);
  expect_whole("bigdl", Words{"--system", "bigdl"} + kDigits, true);
  expect_whole("pairwise", Words{"--system", "pairwise"} + kDigits, true);
  expect_whole("huawei-ring", Words{"--system", "huawei-ring"} + kDigits, true);
  expect_whole("factors", Words{"--strategy", "server", "--factors", "--servers", "2"} + kDigits,
               true);
}

TEST_F(GridOfWorkers, TrainsWholeModelsInEverySystemThatIsNotInStep) {
  for (const std::string system : {"petuum", "project-adam", "mxnet", "easgd", "gosgd"}) {
    expect_whole(system, Words{"--system", system} + kDigits, false);
  }
}

// Its embedding is the matrix of its last layer as well, which is in another stage.
TEST_F(GridOfWorkers, LearnsTextWithAParameterInTwoStages) {
  const Words text = {"--data",  "text", "--data-folder", text_folder(), "--model",   "char-gpt",
                      "--width", "16",   "--heads",       "2",           "--context", "16",
                      "--batch", "8",    "--steps",       "12"};
  expect_whole("allreduce", Words{"--strategy", "allreduce"} + text, true);
  expect_whole("distbelief", Words{"--system", "distbelief"} + text, false);
}

TEST_F(GridOfWorkers, RunsItsOwnSystemsAsTheyStand) {
  const Words few = {"--data", "synthetic", "--samples", "600", "--steps", "5"};
  for (const std::string system : {"gpipe", "cots-hpc"}) {
    const Trained run = trained(system, Words{"--system", system} + few);
    ASSERT_TRUE(run.summary.is_object());
    EXPECT_EQ(run.summary["workers"], 2);
    EXPECT_EQ(run.summary["steps"], 5);
    std::size_t parameters = 0;
    for (const auto& [name, values] : run.model) parameters += values.size();
    EXPECT_EQ(run.summary["parameters"], parameters);
  }
}

TEST_F(GridOfWorkers, IsRefusedInOneLineBeforeAnybodyStarts) {
  struct Wrong {
    Words how;
    Words said;  // the culprit and what is allowed
  };
  const std::vector<Wrong> all = {
      {{"--workers", "3", "--pipeline", "2"}, {"3 workers", "set workers to 2 or a multiple"}},
      {{"--workers", "5", "--pipeline", "5"}, {"pipeline = 5", "4 layers", "1 to 4"}},
      {{"--pipeline", "2", "--stages", "0-1,2-9"}, {"stages = '0-1,2-9'", "no layer 9", "0 to 3"}},
      {{"--pipeline", "2", "--stages", "0,1,2-3"}, {"stages = '0,1,2-3'", "pipeline = 2"}},
      {{"--stages", "0-1,2-3"}, {"stages = 0-1,2-3 has no effect", "pipeline 2 and more"}},
      {{"--model", "char-gpt", "--data", "kjv", "--workers", "3", "--tensor", "3"},
       {"heads = 4", "among 3", "that tensor divides"}},
      {{"--model", "mine.pt", "--pipeline", "2"}, {"mine.pt", "cannot be cut", "built-in"}},
      {{"--system", "mxnet", "--workers", "6", "--tensor", "2"},
       {"3 copies of the model", "groups of 2", "group must divide"}},
      {{"--strategy", "server", "--placement", "workers", "--servers", "3", "--pipeline", "2"},
       {"3 servers", "2 copies of the model", "1 to 2"}}};
  for (const Wrong& wrong : all) {
    const std::string run = (folder_.path() / "run").string();
    const Ran ran = starling_program(Words{"train", "--json", "--run", run} + wrong.how);
    EXPECT_EQ(ran.status, "exit 1") << wrong.said[0];
    EXPECT_TRUE(ran.in_one_error_line()) << wrong.said[0] << ":\n" << ran.out << ran.err;
    for (const std::string& words_said : wrong.said) {
      EXPECT_NE(ran.err.find(words_said), std::string::npos) << words_said << " / " << ran.err;
    }
    EXPECT_FALSE(std::filesystem::exists(run)) << "it was begun";
  }
}

// What stages wait for is on the timeline, which is written when they have gone.
TEST_F(GridOfWorkers, IsRecordedAndShownTurnByTurn) {
  const std::string run = (folder_.path() / "recorded").string();
  trained("recorded", {"--timeline", "--strategy", "allreduce", "--model", "mlp", "--data",
                       "synthetic", "--samples", "500", "--steps", "3", "--workers", "2",
                       "--pipeline", "2", "--micro-batches", "4"});
  EXPECT_NE(file_text(run + "/timeline.json").find("talking to stage 1"), std::string::npos);
  const std::string picture = (folder_.path() / "step.svg").string();
  const Ran shown = starling_program({"explain", "pipeline", "--run", run, "--draw", picture});
  EXPECT_EQ(shown.status, "exit 0") << shown.err;
  EXPECT_NE(shown.out.find("mlp, 2 stages, 4 micro-batches, 1f1b: step 1 as it was recorded"),
            std::string::npos)
      << shown.out;
  for (const char turn : {'a', 'd', 'A', 'D'}) {
    EXPECT_NE(shown.out.find(turn, shown.out.find("stage 0")), std::string::npos) << shown.out;
  }
  EXPECT_NE(file_text(picture).find("<svg"), std::string::npos);
  const json turns = json::parse(
      starling_program({"explain", "pipeline", "--run", run, "--json"}).out, nullptr, false);
  ASSERT_EQ(turns["stages"].size(), 2u);
  EXPECT_EQ(turns["stages"][1]["turns"].size(), 8u);

  trained("whole", {"--strategy", "allreduce", "--model", "mlp", "--data", "synthetic", "--samples",
                    "500", "--steps", "1", "--workers", "2"});
  const std::string whole = (folder_.path() / "whole").string();
  const Ran refused = starling_program({"explain", "pipeline", "--run", whole});
  EXPECT_EQ(refused.err,
            "error: " + whole + " is of no pipeline; name the folder of a run with --pipeline\n");
}

}  // namespace
}  // namespace starling
