// What the timeline says of messages, in the simulator where their times are known.
#include "runtime/timeline.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/cluster.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Kind = Timeline::Kind;

constexpr Channel kChannel{5, Purpose::weights, "a test"};

Task<> tell_the_next(Comm& comm) {
  std::vector<std::byte> out(1000), in(1000);
  auto receive = comm.receive(comm.ring(comm.rank() - 1), kChannel, Bytes(in));
  co_await sleep_until(comm.loop(), 5ms);
  co_await comm.send(comm.ring(comm.rank() + 1), kChannel, std::span(out));
  co_await receive;
}

TEST(Timeline, RecordsNothingUntilItIsSwitchedOn) {
  Cluster cluster(3);
  cluster.run(tell_the_next);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(cluster.comm(rank).timeline().spans().empty());
  }
  Timeline timeline;
  timeline.add({Kind::wait, "x", 1ms, 2ms});
  EXPECT_TRUE(timeline.spans().empty());
  EXPECT_EQ(timeline.left_out(), 0u) << "nobody wanted it";
}

TEST(Timeline, HasASpanForEveryMessageSentAndReceived) {
  Cluster cluster(3);
  for (int rank = 0; rank < 3; ++rank) cluster.comm(rank).timeline().switch_on();
  cluster.run(tell_the_next);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& spans = cluster.comm(rank).timeline().spans();
    ASSERT_EQ(spans.size(), 2u);
    for (const Timeline::Span& span : spans) {
      const bool sent = span.kind == Kind::send;
      EXPECT_EQ(span.peer, (rank + (sent ? 1 : 2)) % 3);
      EXPECT_EQ(span.bytes, 1000u);
      EXPECT_STREQ(span.name, "a test");
      EXPECT_GE(span.begin, 5ms);  // a receive begins when its message comes, not when it is posted
      EXPECT_GE(span.end, span.begin);
    }
    EXPECT_NE(spans[0].kind, spans[1].kind);
  }
}

TEST(Timeline, AScopeLastsFromItsBeginningToItsEnd) {
  Cluster cluster(1);
  Comm& comm = cluster.comm(0);
  comm.timeline().switch_on();
  { const auto scope = comm.record(Kind::encode, "encode"); }
  ASSERT_EQ(comm.timeline().spans().size(), 1u);
  EXPECT_EQ(comm.timeline().spans()[0].kind, Kind::encode);
  EXPECT_STREQ(comm.timeline().spans()[0].name, "encode");
}

TEST(Timeline, CountsWhatItHasNoSpaceFor) {
  Timeline timeline;
  timeline.switch_on(2);
  const std::size_t space = timeline.spans().capacity();
  for (std::size_t i = 0; i < space + 3; ++i) timeline.add({Kind::wait, "x", 1ms, 2ms});
  EXPECT_EQ(timeline.spans().size(), space);
  EXPECT_EQ(timeline.left_out(), 3u);
}

}  // namespace
}  // namespace starling
