// What was measured before is kept, if it is the same.
#include "measure/measured_run.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "tests/error_of.h"

namespace starling {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class MeasuredRunTest : public testing::Test {
 protected:
  MeasuredRunTest() {
    progress_.expect(2);
    options_.folder = folder_.path();
    options_.progress = &progress_;
    fs::create_directory(run_);
    std::ofstream(run_ / "settings.toml") << write_settings(settings_);
    std::ofstream(run_ / "summary.json") << R"({"accuracy": 0.5, "lab": "10mbit"})";
    options_.lab = "10mbit";
  }

  TemporaryFolder folder_;
  const fs::path run_ = folder_.path() / "before";
  GridProgress progress_{"a grid"};
  MeasureOptions options_;
  Settings settings_;
};

TEST_F(MeasuredRunTest, IsTheOneOfBefore) {
  EXPECT_EQ(measured_run(options_, settings_, "before").accuracy, 0.5);
  EXPECT_EQ(progress_.done(), std::vector{run_});
}

TEST_F(MeasuredRunTest, IsTheOneOfBeforeThoughThereAreMoreSettingsNow) {
  std::string before = write_settings(settings_);
  const std::size_t line = before.find("test_samples");
  ASSERT_NE(line, std::string::npos);
  before.erase(line, before.find('\n', line) + 1 - line);
  std::ofstream(run_ / "settings.toml") << before;
  EXPECT_EQ(measured_run(options_, settings_, "before").accuracy, 0.5);
  settings_.train.test_samples = 7;
  EXPECT_NE(error_of([&] { measured_run(options_, settings_, "before"); }).find("other settings"),
            std::string::npos);
}

TEST_F(MeasuredRunTest, IsRefusedWhereAnotherWasMeasured) {
  Settings others = settings_;
  others.workers += 1;
  EXPECT_NE(error_of([&] { measured_run(options_, others, "before"); }).find("other settings"),
            std::string::npos);
  options_.lab = "";
  EXPECT_NE(error_of([&] { measured_run(options_, settings_, "before"); }).find("other links"),
            std::string::npos);
  EXPECT_TRUE(progress_.done().empty());
}

}  // namespace
}  // namespace starling
