// The file that Perfetto reads, from ranks on real sockets.
#include "job/timeline_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/temporary_folder.h"
#include "tests/net/flock.h"

namespace starling {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr Channel kFive{5, Purpose::weights, "a test"};

Task<> tell_the_next(Comm& comm) {
  std::vector<std::byte> out(200'000), in(200'000);
  auto receive = comm.receive(comm.ring(comm.rank() - 1), kFive, Bytes(in));
  co_await comm.send(comm.ring(comm.rank() + 1), kFive, std::span(out));
  co_await receive;
  const auto encoding = comm.record(Timeline::Kind::encode, "encode");
}

class TimelineFileTest : public testing::Test {
 protected:
  void run_flock(const std::string& timeline) {
    Flock flock(3);
    std::vector<std::unique_ptr<TimelineFile>> files;
    for (int rank = 0; rank < 3; ++rank) {
      Job job = flock.job(rank);
      job.timeline = timeline;
      files.push_back(std::make_unique<TimelineFile>(job, flock.comm(rank)));
    }
    flock.run(tell_the_next);
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(TimelineFileTest, HasEveryRanksSpansWithBeginningsAndEnds) {
  run_flock(folder_);
  EXPECT_EQ(join_timeline(folder_), 0u);
  std::ifstream file(folder_ / "timeline.json");
  const json events = json::parse(file)["traceEvents"];
  std::map<std::string, double> begun;
  std::set<int> ranks;
  int ended = 0, encoded = 0;
  for (const json& event : events) {
    ranks.insert(event["pid"].get<int>());
    if (event["ph"] == "b") begun[event["id"]] = event["ts"];
    if (event["ph"] == "e") {
      ASSERT_TRUE(begun.contains(event["id"]));
      EXPECT_GE(event["ts"].get<double>(), begun[event["id"]]);
      ++ended;
    }
    if (event["ph"] == "X") encoded += event["cat"] == "encode";
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(ended, 6);  // each sent and received one
  EXPECT_EQ(begun.size(), 6u);
  EXPECT_EQ(encoded, 3);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "timeline.json") << "a part was left behind";
  }
}

TEST_F(TimelineFileTest, WritesNothingUnasked) {
  run_flock("");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TimelineFileTest, IsWholeEvenIfAPartWasCutOff) {
  run_flock(folder_);
  const fs::path part = folder_ / "timeline-part-1.1";
  ASSERT_TRUE(fs::exists(part));
  fs::resize_file(part, fs::file_size(part) - 20);
  join_timeline(folder_);
  std::ifstream file(folder_ / "timeline.json");
  EXPECT_TRUE(json::parse(file, nullptr, false).is_object());
}

}  // namespace
}  // namespace starling
