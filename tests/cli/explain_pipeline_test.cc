// `starling explain pipeline`, which has the trainer measure a network's layers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;

// On any machine: what does not depend on how fast it is.
TEST(ExplainPipeline, ShowsCutBytesMemoryAndTurns) {
  const Ran ran = starling_program({"explain", "pipeline", "--model", "mlp", "--batch", "8",
                                    "--micro-batches", "4", "--stages", "0,1", "--json"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json result = json::parse(ran.out);
  EXPECT_EQ(result["micro_batch_samples"], 2);
  ASSERT_EQ(result["layers"].size(), 2u);
  EXPECT_EQ(result["layers"][0]["name"], "fc1");
  EXPECT_EQ(result["layers"][0]["activation_bytes"], 4 * 2 * 128);
  const json& stages = result["stages"];
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0]["layers"], (json{0, 0}));
  EXPECT_EQ(stages[0]["sent_bytes"], 4 * 4 * 2 * 128);
  EXPECT_EQ(stages[1]["sent_bytes"], stages[0]["sent_bytes"]);
  EXPECT_EQ(stages[0]["kept_micro_batches"], 2);
  EXPECT_EQ(stages[1]["kept_micro_batches"], 1);
  EXPECT_EQ(stages[0]["turns"].size(), 8u);
  EXPECT_EQ(stages[1]["turns"][0]["turn"], "forward");
  EXPECT_EQ(stages[1]["turns"][1]["turn"], "backward");
  EXPECT_GT(result["bubble"], 0);
  EXPECT_LT(result["bubble"], 1);
  EXPECT_GT(result["step_seconds"], 0);
}

TEST(ExplainPipeline, DrawsTheScheduleForPeople) {
  const TemporaryFolder folder;
  const std::string svg = folder.path() / "p.svg", png = folder.path() / "p.png";
  for (const std::string& file : {svg, png}) {
    const Ran ran =
        starling_program({"explain", "pipeline", "--model", "char-gpt", "--width", "16", "--batch",
                          "8", "--pipeline", "3", "--pipeline-schedule", "gpipe", "--draw", file});
    ASSERT_EQ(ran.status, "exit 0") << ran.err;
    for (const char* said : {"char-gpt, 3 stages, 4 micro-batches of 2 samples, gpipe", "embedding",
                             "stage 0: ", "bubble    ", "33.3 % if all stages took equally long"}) {
      EXPECT_NE(ran.out.find(said), std::string::npos) << said << "\n" << ran.out;
    }
  }
  EXPECT_NE(file_text(svg).find(">backward<"), std::string::npos);
  EXPECT_EQ(file_text(png).substr(1, 3), "PNG");
}

TEST(ExplainPipeline, RefusesWhatCannotBeInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> all = {
      {{"--model", "mlp", "--pipeline", "3"}, "pipeline = 3, and the model has 2 layers"},
      {{"--model", "mlp", "--stages", "0,2"}, "layer 1 comes next"},
      {{"--model", "mlp", "--stages", "0-1"}, "stages = '0-1' is 1 of them, and pipeline = 2"},
      {{"--model", "vgg"}, "the layers of 'vgg' are not known; there are mnist-cnn"},
      {{"--pipeline-schedule", "fast"}, "there is no pipeline schedule 'fast'"},
      {{"--batch", "3"}, "a batch of 3 has no 4 micro-batches"},
      {{"--bandwidth", "quick"}, "'quick' is not a rate"},
      {{"--latency", "5"}, "'5' is not a time"},
      {{"--draw", "p.jpg"}, "--draw p.jpg is no picture that can be drawn"},
      {{"--norm", "batch"}, "norm = batch has no effect here"},
      {{"--pipeline", "0"}, "--pipeline 0 cannot be"},
  };
  for (const auto& [flags, why] : all) {
    std::vector<std::string> words = {"explain", "pipeline"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Ran ran = starling_program(words);
    EXPECT_NE(ran.status, "exit 0") << why;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
    EXPECT_EQ(lines_of(ran.err.substr(ran.err.find("error: "))).size(), 1u) << ran.err;
    EXPECT_EQ(ran.out, "") << ran.out;
  }
  EXPECT_EQ(starling_program({"explain"}).err,
            "error: algorithm is required; see `starling explain --help`\n");
}

}  // namespace
}  // namespace starling
