#include "exchange/choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/cluster.h"
#include "tests/exchange/typed_values.h"

namespace starling {
namespace {

constexpr Choice kChoices[] = {
    {2, 100, "doubling"}, {2, 1000, "naive"}, {4, 10, "tree"}, {4, 1000, "ring"}};

TEST(Choice, IsTheFirstRowThatFits) {
  EXPECT_EQ(choose_allreduce(kChoices, 2, 0), "doubling");
  EXPECT_EQ(choose_allreduce(kChoices, 2, 100), "doubling");
  EXPECT_EQ(choose_allreduce(kChoices, 2, 101), "naive");
  EXPECT_EQ(choose_allreduce(kChoices, 3, 10), "tree") << "as for 4 ranks";
  EXPECT_EQ(choose_allreduce(kChoices, 4, 11), "ring");
}

TEST(Choice, OfTheLastRowIsForAllBeyondIt) {
  EXPECT_EQ(choose_allreduce(kChoices, 1, 50), "doubling");
  EXPECT_EQ(choose_allreduce(kChoices, 2, 1'000'000), "naive");
  EXPECT_EQ(choose_allreduce(kChoices, 4, 1'000'000), "ring");
  EXPECT_EQ(choose_allreduce(kChoices, 100, 1), "tree");
  EXPECT_EQ(choose_allreduce(kChoices, 100, 1'000'000), "ring");
}

TEST(MeasuredChoices, AreInOrderAndOfAlgorithmsThatThereAre) {
  for (const Carrier carrier : {Carrier::loopback, Carrier::shared_memory}) {
    const auto choices = measured_choices(carrier);
    ASSERT_FALSE(choices.empty());
    for (const Choice& each : choices) EXPECT_NO_THROW(find_allreduce(each.algorithm));
    EXPECT_TRUE(std::ranges::is_sorted(choices, [](const Choice& a, const Choice& b) {
      return std::pair(a.most_ranks, a.most_bytes) < std::pair(b.most_ranks, b.most_bytes);
    }));
  }
}

TEST(ChoiceBetweenHosts, IsOfFewMessagesWhenShortAndOfFewBytesWhenLong) {
  for (int ranks = 1; ranks <= 13; ++ranks) {
    EXPECT_EQ(choose_allreduce_between_hosts(ranks, 8192), "doubling") << ranks;
  }
  for (int ranks : {2, 4, 8}) {
    EXPECT_EQ(choose_allreduce_between_hosts(ranks, 8193), "halving-doubling") << ranks;
  }
  for (int ranks : {3, 5, 6, 7, 13}) {
    EXPECT_EQ(choose_allreduce_between_hosts(ranks, 8193), "ring") << ranks;
  }
}

// As many bytes as the ring, which no all-reduce can do without.
TEST(SimulatedAutoAllreduce, SendsTheFewestBytesBetweenHosts) {
  for (int ranks : {2, 3, 4, 5, 8}) {
    const std::size_t elements = 5040 * 3;
    auto all = values_of_all(Element::i32, elements, ranks);
    Cluster cluster(ranks);
    cluster.run([&](Comm& comm) {
      return find_allreduce("auto")(comm, {1, Purpose::gradients},
                                    all[static_cast<std::size_t>(comm.rank())].vector(),
                                    Reduction::sum);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(
          cluster.comm(rank).ledger().total(Direction::sent).payload,
          2 * elements * 4 / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks - 1));
    }
  }
}

}  // namespace
}  // namespace starling
