#include "exchange/move.h"

#include <gtest/gtest.h>

#include <vector>

#include "math/vector_math.h"
#include "tests/exchange/vectors.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// Around a segment of 65,536 elements, and more of them than are under way at a time.
constexpr std::size_t kMoveLengths[] = {0, 1, 65'535, 65'536, 65'537, 131'072, 400'003, 655'360};

std::vector<float> numbered(std::size_t count, float from) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = from + static_cast<float>(i % 1000);
  return values;
}

TEST(Move, BringsEveryElementToItsPlace) {
  for (std::size_t length : kMoveLengths) {
    if (!World::can_have(2)) continue;
    World world(2, {{1e9, 1ms}, {}});
    const std::vector<float> sent = numbered(length, 5);
    Vectors received(2, std::vector<float>(length));
    const auto wire_sent = [&](std::size_t rank) {
      return world.comm(rank).ledger().total(Direction::sent).wire;
    };
    const std::uint64_t before = wire_sent(world.known().back());  // in a world that is not new
    world.run([&](Comm& comm) {
      return comm.rank() == 0 ? move(comm, kWeights, Outgoing{1, sent})
                              : move(comm, kWeights, Incoming{0, received[1]});
    });
    if (world.known().back() == 1) {
      EXPECT_EQ(received[1], sent) << length;
      EXPECT_EQ(wire_sent(1), before)
          << "who only receives sends nothing, not even an empty message";
    }
  }
}

TEST(Move, AddsWhatComesWhileItsOwnGoesTheSameWay) {
  for (std::size_t length : kMoveLengths) {
    if (!World::can_have(2)) continue;
    World world(2, {{1e9, 1ms}, {}});
    Vectors values = {numbered(length, 1), numbered(length, 7)};
    std::vector<float> expected = values[0];
    add(expected, values[1]);
    world.run([&](Comm& comm) {
      const int other = 1 - comm.rank();
      std::vector<float>& own = values[static_cast<std::size_t>(comm.rank())];
      return move(comm, kWeights, {other, own},
                  {other, own, combiner(Element::f32, Reduction::sum)});
    });
    for (const std::size_t rank : world.known()) EXPECT_EQ(values[rank], expected) << length;
  }
}

TEST(Move, TakesInMoreThanItGivesAndTheOtherWayAround) {
  if (!World::can_have(2)) return;
  World world(2, {{1e9, 1ms}, {}});
  std::vector<float> few = numbered(10, 1), many = numbered(300'000, 2), got_few(10),
                     got_many(300'000);
  world.run([&](Comm& comm) {
    return comm.rank() == 0 ? move(comm, kWeights, {1, few}, {1, got_many})
                            : move(comm, kWeights, {0, many}, {0, got_few});
  });
  for (const std::size_t rank : world.known()) {
    EXPECT_EQ(rank == 0 ? got_many : got_few, rank == 0 ? many : few) << rank;
  }
}

}  // namespace
}  // namespace starling
