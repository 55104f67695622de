#include "base/range.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace starling {
namespace {

TEST(Part, PartsFollowOneAnotherAndCoverAll) {
  for (std::size_t elements : {0u, 1u, 2u, 3u, 7u, 8u, 100u, 1001u}) {
    for (std::size_t parts : {1u, 2u, 3u, 5u, 8u, 13u, 64u}) {
      std::size_t covered = 0;
      for (std::size_t index = 0; index < parts; ++index) {
        const Range range = part(elements, parts, index);
        EXPECT_EQ(range.begin, covered) << elements << " in " << parts;
        EXPECT_GE(range.end, range.begin);
        covered = range.end;
      }
      EXPECT_EQ(covered, elements) << "in " << parts;
    }
  }
}

TEST(Part, SizesDifferByAtMostOneAndTheLongerComeFirst) {
  for (std::size_t elements : {0u, 1u, 7u, 8u, 100u, 1001u}) {
    for (std::size_t parts : {1u, 2u, 3u, 5u, 8u, 13u, 64u}) {
      for (std::size_t index = 0; index < parts; ++index) {
        EXPECT_EQ(part(elements, parts, index).size(),
                  elements / parts + (index < elements % parts ? 1 : 0));
      }
    }
  }
}

TEST(Part, LeavesTheLastPartsEmptyWhenThereAreMorePartsThanElements) {
  EXPECT_EQ(part(2, 4, 0), (Range{0, 1}));
  EXPECT_EQ(part(2, 4, 1), (Range{1, 2}));
  EXPECT_EQ(part(2, 4, 2), (Range{2, 2}));
  EXPECT_EQ(part(2, 4, 3), (Range{2, 2}));
}

TEST(PartOf, IsAViewOfTheSameMemory) {
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  const std::span<int> middle = part_of(std::span(values), 3, 1);
  EXPECT_EQ(middle.data(), values.data() + 4);
  EXPECT_EQ(std::vector<int>(middle.begin(), middle.end()), (std::vector<int>{4, 5, 6}));
}

}  // namespace
}  // namespace starling
