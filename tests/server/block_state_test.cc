#include "server/block_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"

namespace starling {
namespace {

Snapshot::Part floats(std::size_t begin, std::size_t end, float offset = 0) {
  std::vector<float> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(static_cast<float>(i) + offset);
  const ConstBytes bytes = bytes_of(std::span(values));
  return {{bytes.begin(), bytes.end()}, true};
}

// Weight i is i, and its velocity 100 + i.
Snapshot cut_at(std::vector<std::size_t> cuts) {
  Snapshot snapshot;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::string block = std::to_string(cuts[i]) + "/";
    snapshot.parts[block + "weights"] = floats(cuts[i], cuts[i + 1]);
    snapshot.parts[block + "optimizer/velocity"] = floats(cuts[i], cuts[i + 1], 100);
    snapshot.parts[block + "optimizer/single/steps"] = {std::vector<std::byte>(8, std::byte{7})};
  }
  return snapshot;
}

TEST(StoredBlocks, GiveAnyStretchWhereverTheyWereCut) {
  for (const auto& cuts : std::vector<std::vector<std::size_t>>{
           {0, 12}, {0, 2, 12}, {0, 3, 4, 10, 12}, {0, 2, 4, 6, 8, 10, 12}}) {
    const StoredBlocks stored(cut_at(cuts));
    for (std::size_t begin = 0; begin < 12; ++begin) {
      for (std::size_t end = begin + 1; end <= 12; ++end) {
        const Snapshot block = stored.in({begin, end});
        EXPECT_EQ(block.parts.at("weights").bytes, floats(begin, end).bytes);
        EXPECT_EQ(block.parts.at("optimizer/velocity").bytes, floats(begin, end, 100).bytes);
        EXPECT_EQ(block.parts.at("optimizer/single/steps").bytes.size(), 8u)
            << "also where a block has as many bytes";
      }
    }
  }
}

TEST(StoredBlocks, SayWhatIsMissing) {
  Snapshot blocks = cut_at({0, 4, 8, 12});
  for (const char* part : {"4/weights", "4/optimizer/velocity", "4/optimizer/single/steps"}) {
    blocks.parts.erase(part);
  }
  const StoredBlocks stored(blocks);
  EXPECT_NO_THROW(stored.in({0, 4}));
  EXPECT_NO_THROW(stored.in({8, 12}));
  EXPECT_THROW(stored.in({3, 9}), Error);
  EXPECT_THROW(stored.in({8, 13}), Error);
}

TEST(StoredBlocks, RefuseNamesThatAreNoBlocks) {
  for (const char* name :
       {"weights", "x/weights", "-1/weights", "1x/weights", "99999999999999999999/weights"}) {
    Snapshot blocks;
    blocks.parts[name] = floats(0, 1);
    EXPECT_THROW(StoredBlocks stored(blocks), Error) << name;
  }
}

TEST(StoredBlocks, KnowWhatTheyCover) {
  Snapshot blocks = cut_at({0, 4, 8, 12});
  for (const char* part : {"4/weights", "4/optimizer/velocity", "4/optimizer/single/steps"}) {
    blocks.parts.erase(part);
  }
  const StoredBlocks stored(blocks);
  EXPECT_TRUE(stored.cover({0, 4}));
  EXPECT_TRUE(stored.cover({9, 12}));
  EXPECT_FALSE(stored.cover({3, 5}));
  EXPECT_FALSE(stored.cover({0, 12}));
  EXPECT_FALSE(stored.cover({8, 13}));
}

// Each weight of a block says who has it, so that it can be seen who it was taken from.
TEST(NewestBlocks, AreOfWhoKnowsTheLatestOfEachStretch) {
  constexpr std::size_t kElements = 12;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random{seed};
    std::vector<KeptBlocks> kept(1 + random.below(4));
    struct Latest {
      std::pair<std::uint64_t, std::uint64_t> age{0, 0};
      float who = -1;
    };
    std::vector<Latest> expected(kElements);
    for (std::size_t server = 0; server < kept.size(); ++server) {
      kept[server].generation = 1 + random.below(3);
      for (std::size_t begin = 0; begin < kElements;) {
        const std::size_t end = begin + 1 + random.below(kElements - begin);
        const auto who = static_cast<float>(server * 100 + begin);
        std::uint64_t version = random.below(1000) * 10 + server;  // no two alike
        if (random.below(3) > 0) {
          const State block = State::saving(kept[server].blocks).in(begin);
          std::vector<float> weights(end - begin, who);
          block("weights", weights);
          block("version", version);
          for (std::size_t i = begin; i < end; ++i) {
            const std::pair age(kept[server].generation, version);
            if (expected[i].who < 0 || expected[i].age < age) expected[i] = {age, who};
          }
        }
        begin = end;
      }
    }
    const StoredBlocks merged(newest_blocks(kept));
    for (std::size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(merged.cover({i, i + 1}), expected[i].who >= 0) << "seed " << seed;
      if (expected[i].who < 0) continue;
      float who = 0;
      const Snapshot element = merged.in({i, i + 1});
      State::restoring(element)("weights", std::span(&who, 1));
      EXPECT_EQ(who, expected[i].who) << "seed " << seed << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace starling
