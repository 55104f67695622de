#include "server/keys.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Keys, CoverTheModelOnceInOrderForAnyCut) {
  for (std::size_t elements : {1u, 7u, 1000u, 1001u}) {
    for (int servers : {1, 2, 3, 7}) {
      for (std::size_t largest : {1u, 5u, 10'000u}) {
        if (static_cast<std::size_t>(servers) > elements) continue;
        const std::vector<Range> buckets = {{elements / 2, elements}, {0, elements / 2}};
        std::size_t covered = 0;
        for (const Key& key : cut_into_keys(elements, servers, buckets, largest)) {
          EXPECT_EQ(key.range.begin, covered);
          EXPECT_GT(key.range.size(), 0u);
          EXPECT_LE(key.range.size(), largest);
          EXPECT_TRUE(key.range.end <= elements / 2 || key.range.begin >= elements / 2);
          const Range shard = part(elements, static_cast<std::size_t>(servers),
                                   static_cast<std::size_t>(key.server));
          EXPECT_TRUE(key.range.begin >= shard.begin && key.range.end <= shard.end);
          covered = key.range.end;
        }
        EXPECT_EQ(covered, elements);
      }
    }
  }
}

TEST(Keys, WholeBucketsGoToTheServerOfTheirMiddle) {
  const std::vector<Range> buckets = {{90, 100}, {30, 90}, {0, 30}};
  const std::vector<Key> expected = {{0, {0, 30}}, {1, {30, 90}}, {1, {90, 100}}};
  EXPECT_EQ(buckets_as_keys(100, 2, buckets), expected);
}

TEST(Keys, OfAModelOfAnySizeAreNotMoreThanThereCanBe) {
  for (std::size_t elements : {1'000ul, 1'000'000'000ul, 100'000'000'000ul}) {
    for (int servers : {1, 64}) {
      const auto keys = cut_into_keys(elements, servers, {}, largest_block(elements));
      EXPECT_LE(keys.size(), kMaxKeys / 2 + 64 * 2);
      EXPECT_EQ(keys.back().range.end, elements);
    }
  }
  EXPECT_EQ(largest_block(1'000'000'000), kLargestBlockElements);
}

}  // namespace
}  // namespace starling
