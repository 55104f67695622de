#include "report/run_data.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace starling {
namespace {

using nlohmann::json;

TEST(RunData, WireBytesAreThoseOfAllPurposes) {
  const json counts = json::parse(
      R"({"control": {"payload": 1, "wire": 10}, "weights": {"wire": 200}, "gradients": {"wire": 3000},
          "evaluation": {"wire": 40000}})");
  EXPECT_EQ(wire_in(counts), 43210);
  EXPECT_EQ(wire_in(json::parse(R"({"control": 7, "weights": {"wire": "many"}})")), 0);
  EXPECT_EQ(wire_in(json::array()), 0);
}

TEST(RunData, SumsLeaveOutWhatIsNoNumber) {
  const json object = json::parse(R"({"sent": [1, "two", null, 4], "name": "five"})");
}

TEST(RunData, OfARunThatWasCutOffIsWhatIsWhole) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_run(folder.path()), Error) << "there are no settings";
  std::ofstream(folder.path() / "settings.toml") << "lr = 0.1\n";
  std::ofstream(folder.path() / "metrics.jsonl") << "{\"loss\": 1}\n7\n[1]\n{\"loss\": 2}\n{\"lo";
  const RunData run = read_run(folder.path());
  ASSERT_EQ(run.metrics.size(), 2u);
  EXPECT_EQ(run.metrics[1]["loss"], 2);
  EXPECT_TRUE(run.network.empty());
  EXPECT_EQ(run.summary.accuracy, std::nullopt);
}

}  // namespace
}  // namespace starling
