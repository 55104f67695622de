#include "exchange/long_message.h"

#include <gtest/gtest.h>

#include "runtime/race.h"
#include "sim/cluster.h"
#include "tests/error_of.h"

namespace starling {
namespace {

constexpr Channel kLongChannel{3};

Task<> say_length(Comm& comm, std::uint64_t bytes) {
  co_await comm.send(1, kLongChannel, object_bytes(bytes));
}

TEST(LongMessage, ComesWhole) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, kLongMessagePieceBytes * 5 / 2}) {
    const std::vector<std::byte> sent(bytes, std::byte{7});
    std::vector<std::byte> received(3);
    Cluster cluster(2);
    cluster.run([&](Comm& comm) {
      return comm.rank() == 0 ? send_long(comm, 1, kLongChannel, sent)
                              : receive_long(comm, 0, kLongChannel, bytes, received);
    });
    EXPECT_EQ(received, sent);
  }
}

Task<> for_a_while(Comm& comm, std::vector<std::byte>& received) {
  Task<int> contest = race(receive_long(comm, 0, kLongChannel, std::size_t{1} << 40, received),
                           sleep_until(comm.loop(), comm.loop().now() + std::chrono::seconds(5)));
  co_await contest;
}

TEST(LongMessage, TakesNoMemoryForWhatIsOnlySaid) {
  std::vector<std::byte> received;
  Cluster cluster(2);
  cluster.run([&](Comm& comm) {
    return comm.rank() == 0 ? say_length(comm, std::uint64_t{1} << 39)
                            : for_a_while(comm, received);
  });
  EXPECT_LE(received.size(), kLongMessagePieceBytes);
}

TEST(LongMessage, IsRefusedIfItCannotBe) {
  std::vector<std::byte> received;
  Cluster cluster(2);
  const std::string error = error_of([&] {
    cluster.run([&](Comm& comm) {
      return comm.rank() == 0 ? say_length(comm, 101)
                              : receive_long(comm, 0, kLongChannel, 100, received);
    });
  });
  EXPECT_NE(error.find("rank 0 would hand over 101 bytes, which cannot be"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace starling
