#include "report/checkpoint_shelf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"

namespace starling {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Shelf : public testing::Test {
 protected:
  CheckpointShelf::Options options(bool in_step) const {
    CheckpointShelf::Options options;
    options.folder = folder_.path();
    options.workers = 2;
    options.servers = 1;
    options.ranks = {0, 1, 2};
    options.in_step = in_step;
    options.keep = 2;
    return options;
  }
  json wrote(int rank, std::uint64_t step) const {
    Snapshot snapshot;
    State::saving(snapshot)("step", step);
    json event = as_json(write_state_file(folder_.path(), rank, step, snapshot));
    event["event"] = "checkpoint";
    event["workers"] = 2;
    return event;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      found.push_back(entry.path().filename());
    }
    std::ranges::sort(found);
    return found;
  }
  std::optional<std::uint64_t> newest() {
    said_.clear();
    const auto found =
        newest_checkpoint(folder_.path(), [&](const std::string& line) { said_.push_back(line); });
    return found ? std::optional(read_manifest(*found).step()) : std::nullopt;
  }

  TemporaryFolder folder_;
  std::vector<std::string> said_;
};

using FileNames = std::vector<std::string>;

TEST_F(Shelf, InStepAllOfAStepAreOne) {
  CheckpointShelf shelf(options(true));
  shelf.take(wrote(0, 10));
  shelf.take(wrote(1, 10));
  shelf.take(wrote(0, 20));  // it is ahead
  EXPECT_FALSE(newest());
  shelf.take(wrote(2, 10));
  EXPECT_EQ(newest(), 10u);
  shelf.take(wrote(2, 20));
  EXPECT_EQ(newest(), 10u);
  shelf.take(wrote(1, 20));
  EXPECT_EQ(newest(), 20u);
}

TEST_F(Shelf, KeepsTheLastFew) {
  CheckpointShelf shelf(options(true));
  const json untold = wrote(0, 50);
  for (const std::uint64_t step : {10u, 20u, 30u, 40u}) {
    for (int rank = 0; rank < 3; ++rank) {
      if (step != 30 || rank != 1) shelf.take(wrote(rank, step));  // of one there is a part
    }
  }
  EXPECT_EQ(names(),
            (FileNames{"0000000020.json", "0000000040.json", "step-20-rank-0.state",
                       "step-20-rank-1.state", "step-20-rank-2.state", "step-40-rank-0.state",
                       "step-40-rank-1.state", "step-40-rank-2.state", "step-50-rank-0.state"}));
}

TEST_F(Shelf, WhereNobodyWaitsEachHasItsOwn) {
  CheckpointShelf shelf(options(false));
  shelf.take(wrote(0, 10));
  shelf.take(wrote(0, 25));
  shelf.take(wrote(2, 11));
  EXPECT_FALSE(newest());
  shelf.take(wrote(1, 4));
  EXPECT_EQ(newest(), 25u);
  shelf.take(wrote(0, 40));
  shelf.take(wrote(2, 30));
  EXPECT_EQ(newest(), 25u) << "there is nothing new of rank 1";
  shelf.leave(1);
  shelf.take(wrote(0, 50));
  EXPECT_EQ(newest(), 50u) << "rank 1 is lost";
  EXPECT_EQ(names(), (FileNames{"0000000001.json", "0000000002.json", "step-11-rank-2.state",
                                "step-25-rank-0.state", "step-30-rank-2.state",
                                "step-4-rank-1.state", "step-50-rank-0.state"}));
}

TEST_F(Shelf, ADamagedOneIsPassedOverForTheOneBefore) {
  CheckpointShelf shelf(options(true));
  for (const std::uint64_t step : {10u, 20u}) {
    for (int rank = 0; rank < 3; ++rank) shelf.take(wrote(rank, step));
  }
  std::ofstream(folder_.path() / "step-20-rank-1.state", std::ios::app) << "x";
  EXPECT_EQ(newest(), 10u);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("step-20-rank-1.state"), std::string::npos);
  std::ofstream(folder_.path() / "0000000010.json") << "{";
  EXPECT_FALSE(newest());
  EXPECT_EQ(said_.size(), 2u);
}

TEST_F(Shelf, WhoGoesOnLeavesNothingOfWhatItDoesAgain) {
  {
    CheckpointShelf shelf(options(true));
    for (const std::uint64_t step : {10u, 20u}) {
      for (int rank = 0; rank < 3; ++rank) shelf.take(wrote(rank, step));
    }
    wrote(0, 30);
    std::ofstream(folder_.path() / "step-30-rank-1.state.77-0.tmp") << "half";
  }
  CheckpointShelf::Options resumed = options(true);
  resumed.resumed = 10;
  const CheckpointShelf shelf(resumed);
  EXPECT_EQ(names(), (FileNames{"0000000010.json", "step-10-rank-0.state", "step-10-rank-1.state",
                                "step-10-rank-2.state"}));
}

// Machine 1 went on alone, as rank 0, in a folder that both see.
TEST_F(Shelf, WhoComesBackLeavesWhatAnotherMachineHasWritten) {
  CheckpointShelf::Options first = options(true), second = options(true);
  first.machines = second.machines = 2;
  first.workers = second.workers = 2;
  first.servers = second.servers = 0;
  second.machine = 1;
  first.ranks = {0};
  second.ranks = {1};
  CheckpointShelf alone(second);
  json event = wrote(0, 20);
  event["workers"] = 1;
  alone.take(event);
  EXPECT_EQ(newest(), 20u);
  first.resumed = 20;
  const CheckpointShelf again(first);
  EXPECT_EQ(newest(), 20u);
}

TEST_F(Shelf, SaysOnceThatThereIsNoneUntilThereIsOneAgain) {
  CheckpointShelf shelf(options(true));
  const json full = {{"event", "checkpoint"}, {"step", 10}, {"error", "the disk is full"}};
  const std::string note = shelf.take(full);
  EXPECT_NE(note.find("step 10"), std::string::npos);
  EXPECT_NE(note.find("the disk is full"), std::string::npos);
  EXPECT_EQ(shelf.take(full), "");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(shelf.take(wrote(rank, 20)), "");
  EXPECT_NE(shelf.take(full), "");
  EXPECT_NE(shelf.take({{"event", "checkpoint"}, {"rank", "x"}}), "nonsense from a worker") << "";
}

}  // namespace
}  // namespace starling
