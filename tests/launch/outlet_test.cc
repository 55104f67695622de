#include "launch/outlet.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <asio/io_context.hpp>

namespace starling {
namespace {

TEST(PrefixedLines, PutTheRankBeforeEachWholeLine) {
  PrefixedLines lines(7);
  EXPECT_EQ(lines.take("one\ntw"), "[7] one\n");
  EXPECT_EQ(lines.take("o\n\n"), "[7] two\n[7] \n");
  EXPECT_EQ(lines.last(), "two");
  EXPECT_EQ(lines.take("three"), "");
  EXPECT_EQ(lines.rest(), "[7] three\n");
  EXPECT_EQ(lines.rest(), "");
}

TEST(PrefixedLines, DoNotWaitForTheEndOfALineWithoutBound) {
  PrefixedLines lines(0);
  std::string out;
  for (int i = 0; i < 100; ++i) out += lines.take(std::string(1000, 'x'));
  EXPECT_GT(out.size(), 60'000u);
  EXPECT_LT(lines.rest().size(), 70'000u);
}

TEST(Outlet, KeepsWhatAPipeDoesNotTakeAndTellsWhenItHas) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  asio::io_context io;
  Outlet outlet(io, ends[1]);
  const std::string text(1 << 20, 'y');
  outlet.put(text);
  io.poll();
  EXPECT_TRUE(outlet.busy());
  bool idle = false;
  outlet.when_idle([&] { idle = true; });
  std::string got;
  char piece[65536];
  while (got.size() < text.size()) {
    const ssize_t count = ::read(ends[0], piece, sizeof piece);
    ASSERT_GT(count, 0);
    got.append(piece, static_cast<std::size_t>(count));
    io.restart();
    io.poll();
  }
  EXPECT_EQ(got, text);
  EXPECT_FALSE(outlet.busy());
  EXPECT_TRUE(idle);
  // The writing end that others share still waits as it always did.
  EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace starling
