#include "sim/network.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

using namespace std::chrono_literals;

TEST(Cable, TakesBytesOverBandwidth) {
  EXPECT_EQ((Cable{12.5e6, 0s}.transfer_time(12.5e6)), 1s);
  EXPECT_EQ((Cable{12.5e6, 1h}.transfer_time(1)), 80ns) << "the latency is not the link's business";
  EXPECT_EQ(Cable{}.transfer_time(1e15), 0s);
}

TEST(Cable, RoundsToTheNearestNanosecond) {
  const Cable link{1e9, 0s};
  for (int bytes = 0; bytes < 100'000; ++bytes) ASSERT_EQ(link.transfer_time(bytes), Time(bytes));
}

TEST(Network, UsesTheStandardLinkWhereThereIsNoException) {
  const Network network{{1e6, 1ms}, {{{0, 1}, {1e3, 2ms}}}};
  EXPECT_EQ(network.cable(0, 1).latency, 2ms);
  EXPECT_EQ(network.cable(1, 0).latency, 1ms) << "an exception is for one direction";
  EXPECT_EQ(network.cable(0, 2).latency, 1ms);
}

}  // namespace
}  // namespace starling
