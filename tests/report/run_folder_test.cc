// What a run leaves behind, also where there is no space for it.
#include "report/run_folder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/process.h"
#include "tests/small_files.h"

namespace starling {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      found.push_back(entry.path().filename());
    }
    std::ranges::sort(found);
    return found;
  }
  std::size_t event_files() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        names(), [](const std::string& name) { return name.starts_with("events.out.tfevents."); }));
  }
  static json progress(int step) {
    return {{"event", "progress"}, {"step", step}, {"loss", 1.5}, {"note", std::string(100, 'x')}};
  }

  static RunSummary summary_of(double accuracy) {
    RunSummary summary;
    summary.accuracy = accuracy;
    return summary;
  }

  TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "run";
};

TEST_F(RunFolderTest, KeepsProgressAndTheSummary) {
  RunFolder folder(path_, {});
  folder.record(0, progress(3));
  folder.record(1, {{"event", "network"}, {"time", 1.0}});
  folder.record(0, {{"event", "chat"}});
  EXPECT_EQ(folder.missing(), "");
  RunSummary summary = summary_of(0.5);
  summary.servers.emplace().staleness.histogram = {{7, 2}};
  folder.finish(summary);
  EXPECT_EQ(json::parse(file_text(path_ / "metrics.jsonl"))["step"], 3);
  EXPECT_EQ(json::parse(file_text(path_ / "network.jsonl")), (json{{"rank", 1}, {"time", 1.0}}));
  EXPECT_EQ(json::parse(file_text(path_ / "summary.json"))["accuracy"], 0.5);
  EXPECT_EQ(file_text(path_ / "staleness.csv"), "staleness,gradients\n0,7\n1,2\n");
  EXPECT_THROW(RunFolder(path_, {}), Error) << "it holds a finished run";
}

TEST_F(RunFolderTest, IsNotLeftBehindByARunInWhichNothingHappened) {
  { RunFolder folder(path_, {}); }
  EXPECT_FALSE(fs::exists(path_));
  fs::create_directory(path_);
  { RunFolder folder(path_, {}); }
  EXPECT_TRUE(fs::exists(path_)) << "it was there before";
}

TEST_F(RunFolderTest, OfARunThatWasCutOffStays) {
  {
    RunFolder folder(path_, {});
    folder.record(0, progress(7));
  }
  EXPECT_EQ(json::parse(file_text(path_ / "metrics.jsonl"))["step"], 7);
}

TEST_F(RunFolderTest, HasNoSummaryIfThereIsNoSpaceForIt) {
  RunFolder folder(path_, {});
  RunSummary summary = summary_of(0.5);
  summary.run = std::string(10'000, 'x');
  try {
    const SmallFiles no_space(1000);
    folder.finish(summary);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("summary.json"), std::string::npos) << words;
    EXPECT_NE(words.find("space left"), std::string::npos) << words;
  }
  for (const std::string& name : names()) EXPECT_FALSE(name.starts_with("summary.json")) << name;
  folder.finish(summary);  // now that there is space
  EXPECT_EQ(json::parse(file_text(path_ / "summary.json")), as_json(summary));
}

TEST_F(RunFolderTest, SaysThatMetricsAreNotCompleteAndStillTakesTheSummary) {
  RunFolder folder(path_, {});
  folder.record(0, progress(1));
  EXPECT_EQ(folder.missing(), "");
  {
    const SmallFiles no_space(200);
    for (int step = 2; step < 5; ++step) folder.record(0, progress(step));
  }
  EXPECT_TRUE(
      folder.missing().starts_with((path_ / "metrics.jsonl").string() + " is not complete: "))
      << folder.missing();
  try {
    folder.finish(summary_of(0.5));
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(folder.missing())) << error.what();
  }
  EXPECT_EQ(json::parse(file_text(path_ / "summary.json"))["accuracy"], 0.5);
}

TEST_F(RunFolderTest, CannotBeginWithoutSpaceForTheSettings) {
  fs::create_directory(path_);
  std::ofstream(path_ / "settings.toml") << "what was there";
  const SmallFiles no_space(100);
  EXPECT_THROW(RunFolder(path_, {}), Error);
  EXPECT_EQ(file_text(path_ / "settings.toml"), "what was there");
}

TEST_F(RunFolderTest, IsNotMadeWhereSomebodyElseKeepsFiles) {
  fs::create_directory(path_);
  std::ofstream(path_ / "settings.toml") << "mine";  // as a project of one's own has it
  EXPECT_THROW(RunFolder(path_, {}), Error);
  EXPECT_EQ(file_text(path_ / "settings.toml"), "mine");
  fs::remove(path_ / "settings.toml");
  EXPECT_NO_THROW(RunFolder(path_, {})) << "an empty one will do";
}

TEST_F(RunFolderTest, TakesTheEventsOfARunThatWasCutOffAndNoOthers) {
  const std::string foreign = "events.out.tfevents.1700000000.somebody.1234.0";
  {
    RunFolder folder(path_, {});
    folder.record(0, progress(1));  // and then it is cut off
  }
  std::ofstream(path_ / foreign) << "precious";
  EXPECT_EQ(event_files(), 2u);
  RunFolder folder(path_, {});
  EXPECT_EQ(event_files(), 2u) << "its own, and not the one of the run before";
  EXPECT_EQ(file_text(path_ / foreign), "precious");
}

}  // namespace
}  // namespace starling
