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
  json wrote(int rank, std::uint64_t step, int generation = 1) const {
    Snapshot snapshot;
    State::saving(snapshot)("step", step);
    json event = as_json(write_state_file(folder_.path(), rank, step, snapshot));
    event["event"] = "checkpoint";
    event["generation"] = generation;
    return event;
  }
  static json is_now(int rank, int workers, int servers, int generation = 2) {
    return {{"event", "generation"},
            {"generation", generation},
            {"rank", rank},
            {"workers", workers},
            {"servers", servers}};
  }
  Manifest newest_manifest() const { return read_manifest(manifests_in(folder_.path()).at(0)); }
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
  alone.take_generation(1, is_now(0, 1, 0));
  alone.take(wrote(0, 20, 2));
  EXPECT_EQ(newest(), 20u);
  first.resumed = 20;
  const CheckpointShelf again(first);
  EXPECT_EQ(newest(), 20u);
}

// Worker 0 is lost, and the ranks of all others are one lower.
TEST_F(Shelf, InStepGoesByTheRanksOfTheNewestGeneration) {
  CheckpointShelf shelf(options(true));
  shelf.take(wrote(1, 10));
  shelf.take(wrote(2, 10));
  shelf.leave(0);
  EXPECT_FALSE(newest()) << "its file is missing";
  shelf.take_generation(1, is_now(0, 1, 1));
  shelf.take_generation(2, is_now(1, 1, 1));
  shelf.take(wrote(1, 10, 2));
  EXPECT_FALSE(newest());
  shelf.take(wrote(0, 10));
  EXPECT_FALSE(newest()) << "it is of the generation before";
  shelf.take(wrote(0, 10, 2));
  EXPECT_EQ(newest(), 10u);
  EXPECT_EQ(newest_manifest().workers, 1);
  // It is started again, and comes in between the others.
  shelf.take_generation(2, is_now(2, 2, 1, 3));
  shelf.take_generation(1, is_now(0, 2, 1, 3));
  shelf.take_generation(0, is_now(1, 2, 1, 3));
  for (int rank = 0; rank < 3; ++rank) shelf.take(wrote(rank, 20, 3));
  EXPECT_EQ(newest(), 20u);
  EXPECT_EQ(newest_manifest().workers, 2);
}

TEST_F(Shelf, DoesWithoutAServerThatIsLost) {
  CheckpointShelf::Options two_servers = options(true);
  two_servers.servers = 2;
  two_servers.ranks = {0, 1, 2, 3};
  CheckpointShelf shelf(two_servers);
  shelf.leave(2);
  shelf.take_generation(0, is_now(0, 2, 1));
  shelf.take_generation(1, is_now(1, 2, 1));
  shelf.take_generation(3, is_now(2, 2, 1));
  for (int rank = 0; rank < 3; ++rank) shelf.take(wrote(rank, 10, 2));
  EXPECT_EQ(newest(), 10u);
  EXPECT_EQ(newest_manifest().servers, 1);
}

TEST_F(Shelf, WhoHasJoinedByItselfWritesNothing) {
  for (const bool in_step : {true, false}) {
    CheckpointShelf shelf(options(in_step));
    for (const auto& [launched, rank] : {std::pair(0, 0), {1, 1}, {2, 3}}) {
      shelf.take_generation(launched, is_now(rank, 3, 1));
    }
    const std::uint64_t step = in_step ? 10 : 20;
    for (const int rank : {0, 1, 3}) shelf.take(wrote(rank, step, 2));
    EXPECT_EQ(newest(), step);
    EXPECT_EQ(newest_manifest().workers, 3);
    for (const auto& each : fs::directory_iterator(folder_.path())) fs::remove(each);
  }
}

TEST_F(Shelf, WhereNobodyWaitsGoesByTheRanksOfTheNewestGenerationToo) {
  CheckpointShelf shelf(options(false));
  for (int rank = 0; rank < 3; ++rank) shelf.take(wrote(rank, 30));
  EXPECT_EQ(newest(), 30u);
  shelf.leave(0);
  shelf.take(wrote(1, 35));
  shelf.take_generation(1, is_now(0, 1, 1));
  shelf.take_generation(2, is_now(1, 1, 1));
  shelf.take(wrote(1, 31, 2));
  EXPECT_EQ(newest(), 30u);
  shelf.take(wrote(0, 40, 2));
  EXPECT_EQ(newest(), 40u);
  EXPECT_EQ(newest_manifest().files.size(), 2u);
}

// Machine 0 has lost one of its two workers, so that a rank it had is now machine 1's.
TEST_F(Shelf, LeavesTheFilesOfAnotherMachineThatHasOneOfItsRanksNow) {
  CheckpointShelf::Options first = options(true);
  first.workers = 3;
  first.servers = 0;
  first.machines = 2;
  first.ranks = {0, 1};
  CheckpointShelf shelf(first);
  shelf.take_generation(0, is_now(0, 2, 0));
  wrote(1, 10, 2);  // of which machine 1 has not told its launcher yet
  shelf.take(wrote(0, 10, 2));
  EXPECT_EQ(names(), (FileNames{"0000000010-machine-0.json", "step-10-rank-0.state",
                                "step-10-rank-1.state"}));
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
