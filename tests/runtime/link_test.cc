// Reading and writing a link to the end, over simulated ones that move a few bytes at a time.
#include "runtime/link.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/host.h"
#include "sim/switch.h"
#include "tests/error_of.h"

namespace starling {
namespace {

struct LinkEnds {
  LinkEnds() : hub(loop, 2, 1, {.short_share = 0.9, .capacity_bytes = 50}) {
    const auto wire = std::make_shared<Wire>(hub, 0, 0, 1, 50);
    one = std::make_unique<SimLink>(wire, 0);
    other = std::make_unique<SimLink>(wire, 1);
  }
  SimLoop loop;
  Switch hub;
  std::unique_ptr<Link> one, other;
};

TEST(Link, IsReadAndWrittenToTheEnd) {
  LinkEnds ends;
  std::vector<std::byte> out(1000), in(1000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i);
  const Running writing(write_all(ends.loop, *ends.one, out));
  ends.loop.run(read_exactly(ends.loop, *ends.other, in));
  EXPECT_EQ(in, out);
  EXPECT_TRUE(writing.done());
}

TEST(Link, SaysThatTheOtherEndHungUp) {
  LinkEnds ends;
  std::vector<std::byte> in(10);
  write_at_once(*ends.one, ConstBytes(in).first(9));
  ends.one->close();
  EXPECT_EQ(error_of([&] { ends.loop.run(read_exactly(ends.loop, *ends.other, in)); }),
            "it hung up");
}

TEST(Link, TakesLastWordsAsFarAsThereIsRoom) {
  LinkEnds ends;
  const std::vector<std::byte> words(60);
  write_at_once(*ends.one, words);
  std::vector<std::byte> heard(50);
  ends.loop.run(read_exactly(ends.loop, *ends.other, heard));
  ends.one->close();
  EXPECT_THROW(ends.loop.run(read_exactly(ends.loop, *ends.other, Bytes(heard).first(1))), HungUp);
}

TEST(Link, ACancelledWaitIsNotCalledBack) {
  LinkEnds ends;
  std::vector<std::byte> in(1);
  { const Running given_up(read_exactly(ends.loop, *ends.other, in)); }
  write_at_once(*ends.one, in);
  ends.loop.run(sleep_until(ends.loop, std::chrono::seconds(1)));
  ends.loop.run(read_exactly(ends.loop, *ends.other, in));
}

TEST(Address, IsWrittenAsPeopleKnowIt) {
  Address address;
  address.ip[0] = 0xfd;
  address.ip[15] = 3;
  EXPECT_EQ(to_string(address), "fd00:0:0:0:0:0:0:3");
  address.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 7};
  EXPECT_EQ(to_string(address), "10.0.0.7");
}

}  // namespace
}  // namespace starling
