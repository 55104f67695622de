// A star whose master is lost: what it has answered to those who are left is not.
#include <algorithm>

#include "base/random.h"
#include "tests/mixing/mixers.h"

namespace starling {
namespace {

// A master that is nobody's own worker but answers, and what is left of the others' sum with it.
struct Star {
  Star(int size, std::uint64_t seed) : mixers(settings_of(size), 17, seed, {{1e7, 1ms}, {}}) {
    for (std::size_t rank = 1; rank < mixers.weights.size(); ++rank) {
      for (std::size_t i = 0; i < 17; ++i) before[i] += sum_of(mixers.weights[rank], i);
    }
  }
  static MixingSettings settings_of(int size) {
    MixingSettings settings = mixing_of("elastic", "star", size);
    settings.alpha = settings.beta = 0.2;
    return settings;
  }
  static double sum_of(const Floats& weights, std::size_t i) {
    return static_cast<double>(weights[i]);
  }
  std::vector<std::size_t> masters() const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < mixers.weights.size(); ++rank) {
      if (mixers.rules[rank]->final_share() > 0) ranks.push_back(rank);
    }
    return ranks;
  }

  Mixers mixers;
  std::vector<double> before = std::vector<double>(17);
};

TEST(Deputies, KeepAllThatTheMasterHasAnswered) {
  for (int size : {2, 3, 5, 8}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " workers, seed " << seed);
      Star star(size, seed);
      Mixers& mixers = star.mixers;
      const double when = 2e7 + 6e8 * Random{seed, 0xdead}.uniform();
      mixers.cluster.crash(0, Time(std::llround(when)));
      Mixers::Pace pace{.steps = 70, .settle = false, .seed = seed};
      pace.slowed[0] = 1e6;  // it does no step, and so never meets the master itself
      expect_all_well(mixers.go(pace));
      mixers.wait();
      const std::vector<std::size_t> masters = star.masters();
      ASSERT_EQ(masters.size(), 1u);
      const Floats own = mixers.weights[masters[0]];
      mixers.settle();
      for (std::size_t i = 0; i < 17; ++i) {
        double sum = Star::sum_of(own, i);
        for (std::size_t rank = 1; rank < mixers.weights.size(); ++rank) {
          sum += Star::sum_of(mixers.weights[rank], i);
        }
        EXPECT_NEAR(sum, star.before[i], 2e-5 * size);
      }
    }
  }
}

TEST(Deputies, TakeOverFromEachOther) {
  for (int size : {3, 5, 8}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << size << " workers, seed " << seed);
      Star star(size, seed);
      Random random{seed, 0x10557};
      for (int rank = 0; rank < size - 1; ++rank) {
        // Some at about the same time, so that not everybody has heard of everybody.
        const double when = seed % 2 == 0 ? 3e8 + 3e6 * random.uniform() : 6e8 * random.uniform();
        star.mixers.cluster.crash(rank, Time(std::llround(when)));
      }
      expect_all_well(star.mixers.go({.steps = 80, .seed = seed}));
      EXPECT_EQ(star.mixers.rules[index(size - 1)]->final_share(), 1);
    }
  }
}

// One hears of who is lost, and the others do not: it must not wait for them for ever.
TEST(Deputies, AgreeThoughSomeHaveHeardOfOneWhoIsNoMore) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Star star(5, seed);
    Random random{seed, 0xab5e};
    const double when = 1e8 + 2e8 * random.uniform();
    const int second = 1 + static_cast<int>(random.below(4));
    star.mixers.cluster.crash(0, Time(std::llround(when)));
    star.mixers.cluster.crash(second, Time(std::llround(when + 4e7 * random.uniform())));
    expect_all_well(star.mixers.go({.steps = 60, .seed = seed}));
    std::vector<std::size_t> masters = star.masters();
    std::erase(masters, index(second));
    EXPECT_EQ(masters.size(), 1u) << "seed " << seed;
  }
}

TEST(Deputies, OfAPenaltysMasterGoOnFromWhatItLastSaid) {
  for (int size : {2, 3, 5, 8}) {
    SCOPED_TRACE(size);
    MixingSettings settings = mixing_of("penalty", "star", size);
    Mixers mixers(settings, 17, 1, {{1e9, 100us}, {}});
    mixers.cluster.crash(0, 403ms);
    expect_all_well(mixers.go({.steps = 60, .settle = false}));
    const std::size_t last = index(size - 1);
    const std::uint64_t before = mixers.rules[last]->report().models();
    mixers.go_well({.steps = 50});  // from the first step on: far behind what the master had done
    if (size > 2) {
      EXPECT_GT(mixers.rules[last]->report().models(), before + 20);
    }
    // All pull towards the mean of those who are left, not towards what was long ago.
    std::vector<Floats> left(mixers.weights.begin() + 1, mixers.weights.end());
    const std::vector<double> mean = mean_of(left);
    Floats gradient(17);
    mixers.rules[last]->bend(mixers.weights[last], gradient, 0);
    for (std::size_t i = 0; i < 17; ++i) {
      const double pull =
          settings.penalty * (static_cast<double>(mixers.weights[last][i]) - mean[i]);
      EXPECT_NEAR(static_cast<double>(gradient[i]), pull, 1e-5);
    }
  }
}

}  // namespace
}  // namespace starling
