// In which order messages leave, without a socket.
#include "net/outbox.h"

#include <gtest/gtest.h>

#include "tests/net/channels.h"
#include "tests/net/desk.h"

namespace starling {
namespace {

TEST(Outbox, SendsNothingOfAChannelThatIsHeld) {
  Desk desk;
  const std::vector<std::byte> bytes(2 * kFragmentBytes);
  auto one = desk.send(1, kOne, ConstBytes(bytes));
  auto two = desk.send(1, kTwo, ConstBytes(bytes));
  desk.outbox.next();  // its first fragment is under way
  desk.outbox.hold(kOne.id);
  auto behind = desk.send(1, kOne, ConstBytes(bytes));
  EXPECT_EQ(desk.take(), kOne.id) << "a fragment that has begun must end";
  EXPECT_EQ(desk.take(), kTwo.id);
  EXPECT_EQ(desk.take(), kTwo.id);
  EXPECT_TRUE(two.done());
  EXPECT_EQ(desk.take(), 0u);
  desk.outbox.resume(kOne.id);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(desk.take(), kOne.id);
  EXPECT_TRUE(one.done() && behind.done());
  EXPECT_EQ(desk.take(), 0u);
}

TEST(Outbox, LetsChannelsTakeTurns) {
  Desk desk;
  const std::vector<std::byte> bytes(3 * kFragmentBytes);
  auto long_one = desk.send(1, kOne, ConstBytes(bytes));
  auto short_one = desk.send(1, kTwo, ConstBytes(bytes).first(1));
  std::vector<std::uint32_t> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(desk.take());
  EXPECT_EQ(taken, (std::vector<std::uint32_t>{kOne.id, kTwo.id, kOne.id, kOne.id}));
}

}  // namespace
}  // namespace starling
