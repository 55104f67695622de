// What a worker writes on its board is what others read there.
#include "job/board.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace starling {
namespace {

class OnABoard : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "rank-3";
};

TEST_F(OnABoard, StandsWhatAWorkerDoes) {
  make_board(path_);
  EXPECT_EQ(read_board(path_)->process, 0);
  Board board(path_, 3);
  EXPECT_EQ(read_board(path_)->process, ::getpid());
  EXPECT_EQ(read_board(path_)->rank, 3);
  EXPECT_EQ(read_board(path_)->state, BoardEntry::State::joining);
  board.begin_exchange();
  board.begin_exchange();
  board.refresh(100, [](BoardEntry& entry) {
    entry.add_wait(1, "a ring all-reduce", false);
    entry.add_wait(1, "a ring all-reduce", false);
    entry.add_wait(2, std::string(500, 'x'), true);
  });
  BoardEntry entry = *read_board(path_);
  EXPECT_EQ(entry.state, BoardEntry::State::exchanging);
  EXPECT_EQ(entry.moved_bytes, 100u);
  ASSERT_EQ(entry.waits, 2u) << "the same wait counts once";
  EXPECT_EQ(entry.wait[0].operation.data(), std::string("a ring all-reduce"));
  EXPECT_EQ(entry.wait[1].rank, 2);
  EXPECT_TRUE(entry.wait[1].sends);
  EXPECT_FALSE(board.end_exchange()) << "one is still under way";
  EXPECT_EQ(read_board(path_)->state, BoardEntry::State::exchanging);
  EXPECT_TRUE(board.end_exchange());
  board.count_steps();
  board.step_done();
  entry = *read_board(path_);
  EXPECT_EQ(entry.state, BoardEntry::State::computing);
  EXPECT_EQ(entry.waits, 0u);
  EXPECT_EQ(entry.steps, 1u);
}

// Nothing has moved, as long as neither bytes nor states change.
TEST_F(OnABoard, ASignOfLifeIsNoMove) {
  make_board(path_);
  Board board(path_, 0);
  board.begin_exchange();
  board.refresh(100, [](BoardEntry&) {});
  const BoardEntry before = *read_board(path_);
  ::usleep(2000);
  board.refresh(100, [](BoardEntry&) {});
  EXPECT_EQ(read_board(path_)->since, before.since);
  EXPECT_GT(read_board(path_)->written, before.written);
  board.refresh(101, [](BoardEntry&) {});
  EXPECT_GT(read_board(path_)->since, before.since);
}

TEST_F(OnABoard, ThereIsRoomForSomeWaitsOnly) {
  make_board(path_);
  Board board(path_, 0);
  board.begin_exchange();
  board.refresh(1, [](BoardEntry& entry) {
    for (int rank = 0; rank < 100; ++rank) entry.add_wait(rank, "a naive all-reduce", false);
  });
  EXPECT_EQ(read_board(path_)->waits, BoardEntry::kMostWaits);
}

TEST_F(OnABoard, OthersCannotReadAndNonsenseIsBounded) {
  make_board(path_);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THROW(make_board(path_), Error) << "somebody else's may be there";
  std::ofstream(path_) << std::string(4096, '\xff');
  const auto entry = read_board(path_);
  EXPECT_EQ(entry->waits, BoardEntry::kMostWaits);
  EXPECT_EQ(entry->wait[0].operation.back(), '\0');
  EXPECT_LE(entry->state, BoardEntry::State::serving);
  std::ofstream(path_) << "short";
  EXPECT_EQ(read_board(path_), std::nullopt);
  EXPECT_EQ(read_board(folder_.path() / "none"), std::nullopt);
  Board nowhere("", 0), missing(folder_.path() / "none", 0);  // do nothing
  nowhere.begin_exchange();
  missing.begin_exchange();
}

}  // namespace
}  // namespace starling
