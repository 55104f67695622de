#include "runtime/frame_pool.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/running.h"
#include "tests/counted_allocations.h"

namespace starling {
namespace {

Task<int> leaf(int value) {
  std::array<int, 50> body{};
  body[static_cast<std::size_t>(value) % 50] = value;
  co_await std::suspend_never();
  co_return body[static_cast<std::size_t>(value) % 50];
}

Task<> step(int& sum) {
  for (int i = 0; i < 10; ++i) {
    const int value = co_await leaf(i);
    sum += value;
  }
}

Task<> wait(Signal& signal) { co_await signal; }

TEST(FramePool, MakesASteadyStateOfCoroutinesThatAllocatesNothing) {
  int sum = 0;
  const auto round = [&] {
    const Running done(step(sum));
    Signal signal;
    const Running finished(wait(signal));
    const Running cancelled(wait(signal));
    signal.take_waiter().resume();
  };
  const std::size_t before_first = allocations;
  round();
  EXPECT_GT(allocations, before_first) << "nothing is counted, so nothing is shown";
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(sum, 1001 * 45);
}

TEST(FramePool, LendsARecycledFrameToTheNextOfItsSize) {
  void* first = FramePool::allocate(200);
  FramePool::release(first, 200);
  void* other_size = FramePool::allocate(500);
  void* second = FramePool::allocate(210);  // the same 64 bytes of size
  void* third = FramePool::allocate(210);
  EXPECT_EQ(second, first);
  EXPECT_NE(other_size, first);
  EXPECT_NE(third, second) << "lent twice";
  FramePool::release(other_size, 500);
  FramePool::release(second, 210);
  FramePool::release(third, 210);
}

TEST(FramePool, GivesAFrameOfARecycledOneItsWholeSize) {
  for (std::size_t smaller : {1u, 64u, 65u, 128u, 4033u}) {
    const std::size_t largest = (smaller + 63) / 64 * 64;  // of the same kind
    void* frame = FramePool::allocate(smaller);
    FramePool::release(frame, smaller);
    void* again = FramePool::allocate(largest);
    EXPECT_EQ(again, frame) << smaller;
    std::fill_n(static_cast<std::byte*>(again), largest, std::byte{1});  // the sanitizer watches
    FramePool::release(again, largest);
  }
}

TEST(FramePool, LeavesLongFramesToTheAllocator) {
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = allocations;
    void* frame = FramePool::allocate(4097);
    EXPECT_EQ(allocations, before + 1);
    FramePool::release(frame, 4097);
  }
}

}  // namespace
}  // namespace starling
