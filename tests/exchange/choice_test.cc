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
  const auto choices = measured_choices();
  ASSERT_FALSE(choices.empty());
  for (const Choice& each : choices) EXPECT_NO_THROW(find_allreduce(each.algorithm));
  EXPECT_TRUE(std::ranges::is_sorted(choices, [](const Choice& a, const Choice& b) {
    return std::pair(a.most_ranks, a.most_bytes) < std::pair(b.most_ranks, b.most_bytes);
  }));
}

TEST(AutoAllreduce, GivesTheSumForEveryRowOfTheTable) {
  for (const Choice& choice : measured_choices()) {
    if (choice.most_bytes > 1 << 20) continue;
    const std::size_t elements = choice.most_bytes / 4;
    auto all = values_of_all(Element::i32, elements, choice.most_ranks);
    TypedValues expected = all[0];
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      combine(expected.vector(), all[rank].vector(), Reduction::sum);
    }
    Cluster cluster(choice.most_ranks);
    cluster.run([&](Comm& comm) {
      return find_allreduce("auto")(comm, {1, Purpose::gradients},
                                    all[static_cast<std::size_t>(comm.rank())].vector(),
                                    Reduction::sum);
    });
    for (const TypedValues& each : all) EXPECT_EQ(each, expected) << choice.algorithm;
  }
}

}  // namespace
}  // namespace starling
