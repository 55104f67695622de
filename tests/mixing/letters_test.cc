// Rules that wait for nobody: each against its formula, with letters in a known order; then many
// workers in their own time, and what must hold whatever the order.
#include <algorithm>
#include <bit>
#include <numeric>

#include "mixing/letters.h"
#include "runtime/group.h"
#include "tests/mixing/mixers.h"

namespace starling {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Elastic, by its formula

TEST(Elastic, WhoAsksAndWhoIsAskedMoveByTheDistanceAtTheAnswer) {
  for (std::size_t elements : {1, 17, 1000}) {
    MixingSettings settings = mixing_of("elastic", "mesh", 2);
    settings.alpha = 0.3;
    settings.beta = 0.125;
    Mixers mixers(settings, elements);
    const Vectors before = mixers.weights;
    mixers.mix_one(0);
    for (float& value : mixers.weights[0]) value += 0.5f;  // it goes on while it waits
    for (float& value : mixers.weights[1]) value -= 0.25f;
    mixers.attend_one(1);
    mixers.attend_one(0);
    for (std::size_t i = 0; i < elements; ++i) {
      const float asked = before[1][i] - 0.25f;
      const float d = before[0][i] - asked;
      EXPECT_NEAR(mixers.weights[1][i], asked + 0.125f * d, 3e-7);
      EXPECT_NEAR(mixers.weights[0][i], before[0][i] + 0.5f - 0.3f * d, 3e-7);
    }
    mixers.settle();
  }
}

TEST(Elastic, AMasterStandsBesideTheFirstWorker) {
  MixingSettings settings = mixing_of("elastic", "star", 3);
  settings.alpha = 0.2;
  settings.beta = 0.4;
  Mixers mixers(settings, 17);  // the master begins at zero
  const Vectors before = mixers.weights;
  mixers.mix_one(2);
  mixers.attend_one(0);
  mixers.attend_one(2);
  mixers.mix_one(0);
  for (std::size_t i = 0; i < 17; ++i) {
    const float first = 0.4f * before[2][i];  // the master, after worker 2
    EXPECT_NEAR(mixers.weights[2][i], before[2][i] - 0.2f * before[2][i], 3e-7);
    EXPECT_NEAR(mixers.weights[0][i], before[0][i] - 0.2f * (before[0][i] - first), 3e-7);
  }
  mixers.settle();
  for (std::size_t i = 0; i < 17; ++i) {
    const float first = 0.4f * before[2][i];
    EXPECT_NEAR(mixers.weights[0][i], first + 0.4f * (before[0][i] - first), 3e-7);
  }
  EXPECT_EQ(mixers.shares(), (std::vector<double>{1, 0, 0})) << "the master's is the final model";
}

TEST(Elastic, AMasterAnswersWhileItsWorkerIsStillComputing) {
  for (int size : {2, 3, 5, 8}) {
    MixingSettings settings = mixing_of("elastic", "star", size);
    settings.alpha = settings.beta = 0.25;
    Mixers mixers(settings, 3);
    const Vectors before = mixers.weights;
    Floats master(3);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t rank = 1; rank < index(size); ++rank) {  // rank 0 never ends its step
        const Floats asked = mixers.weights[rank];
        mixers.mix_one(rank);
        mixers.attend_one(rank);
        for (std::size_t i = 0; i < 3; ++i) {
          const float distance = asked[i] - master[i];
          EXPECT_NEAR(mixers.weights[rank][i], asked[i] - 0.25f * distance, 1e-6)
              << "n=" << size << " rank=" << rank;
          master[i] += 0.25f * distance;
        }
      }
    }
    EXPECT_EQ(mixers.weights[0], before[0]);
  }
}

TEST(Elastic, AsksNoMoreUntilItIsAnswered) {
  Mixers mixers(mixing_of("elastic", "mesh", 2), 3);
  for (int i = 0; i < 5; ++i) mixers.mix_one(0);
  EXPECT_EQ(mixers.rules[0]->report().skipped, 4u);
  mixers.attend_one(1);
  mixers.attend_one(0);
  EXPECT_EQ(mixers.rules[1]->report().models(), 1u);
  mixers.mix_one(0);
  EXPECT_EQ(mixers.rules[0]->report().skipped, 4u);
  mixers.settle();
}

// Two that ask each other at the same time must not both move all of the way: they would only
// trade places, for ever.
TEST(Elastic, TwoThatAskEachOtherAtOnceStillMeet) {
  MixingSettings settings = mixing_of("elastic", "mesh", 2);
  settings.alpha = settings.beta = 0.5;
  Mixers mixers(settings, 17, 1, {{1e9, 100us}, {}});
  const double before = spread(mixers.weights);
  mixers.go_well({.steps = 20, .jitter = 0});
  EXPECT_LT(spread(mixers.weights), 0.01 * before);
}

Task<> ask_and_settle(Mixing& rule, std::span<float> weights) {
  co_await rule.mix(weights, 0);
  co_await rule.settle(weights);
}

// Who is asked has moved already; if who asked went before the answer comes, the mean would change.
TEST(Elastic, DoesNotGoBeforeTheAnswerToItsLastQuestion) {
  MixingSettings settings = mixing_of("elastic", "mesh", 2);
  settings.alpha = settings.beta = 0.5;
  Mixers mixers(settings, 3, 1, {{1e9, 100us}, {}});
  const std::vector<double> mean = mean_of(mixers.weights);
  Running early(mixers.rules[1]->settle(mixers.weights[1]));
  mixers.wait();  // its goodbye has come
  mixers.cluster.run([&](Comm& comm) -> Task<> {
    return comm.rank() == 0 ? ask_and_settle(*mixers.rules[0], mixers.weights[0])
                            : sleep_until(comm.loop(), comm.loop().now() + 100ms);
  });
  EXPECT_TRUE(early.done());
  for (const Floats& weights : mixers.weights) EXPECT_LT(difference(weights, mean), 3e-7);
}

// Push, by its formula

TEST(Push, WhoHearsMovesByTheGraphsWeights) {
  for (const char* rule : {"mean", "elastic-push"}) {
    for (const char* graph : {"tree", "window", "exponential"}) {
      MixingSettings settings = mixing_of(rule, graph, 8);
      settings.waits = false;
      settings.alpha = 0.3;
      const Graph made = make_graph(settings.graph);
      for (int writer : {0, 1, 5}) {
        Mixers mixers(settings, 17);
        const Vectors before = mixers.weights;
        mixers.mix_one(index(writer), 0);
        for (std::size_t rank = 0; rank < 8; ++rank) mixers.attend_one(rank);
        const Matrix weights = mixing_weights(made, 0);
        for (std::size_t rank = 0; rank < 8; ++rank) {
          const auto told = made.tells(writer, 0);
          const bool hears = std::ranges::count(told, static_cast<int>(rank)) > 0;
          const double by = !hears                        ? 0
                            : rule == std::string("mean") ? weights[rank][index(writer)]
                                                          : 0.3;
          for (std::size_t i = 0; i < 17; ++i) {
            const auto w = static_cast<double>(before[rank][i]);
            const auto heard = static_cast<double>(before[index(writer)][i]);
            EXPECT_NEAR(mixers.weights[rank][i], w + by * (heard - w), 3e-7)
                << rule << " " << graph << " " << writer << " to " << rank;
          }
        }
        mixers.settle();
      }
    }
  }
}

TEST(Push, GoesDownATreeLessOftenThanUp) {
  MixingSettings settings = mixing_of("elastic-push", "tree", 3);
  settings.waits = false;
  settings.rounds_down = {3};
  Mixers mixers(settings, 3);
  for (std::uint64_t round = 0; round < 12; ++round) {
    mixers.mix_one(0, round);
    mixers.mix_one(1, round);
    for (std::size_t rank = 0; rank < 3; ++rank) mixers.attend_one(rank);
    EXPECT_EQ(mixers.rules[0]->report().models(), round + 1) << "from its child, every round";
    EXPECT_EQ(mixers.rules[1]->report().models(), (round + 1) / 3)
        << "from its parent, every third";
    EXPECT_EQ(mixers.rules[2]->report().models(), (round + 1) / 3);
  }
  mixers.settle();
}

// Of seven, 0 stands at depth 0, 1 and 2 at 1, and the others at 2.
TEST(Push, GoesUpAndDownATreeAsOftenAsItsDepthSays) {
  MixingSettings settings = mixing_of("elastic-push", "tree", 7);
  settings.waits = false;
  settings.rounds_up = {4, 2};
  settings.rounds_down = {6, 3};
  Mixers mixers(settings, 3);
  for (std::uint64_t round = 0; round < 12; ++round) {
    for (std::size_t rank = 0; rank < 7; ++rank) mixers.mix_one(rank, round);
    for (std::size_t rank = 0; rank < 7; ++rank) mixers.attend_one(rank);
    const std::uint64_t now = round + 1;
    EXPECT_EQ(mixers.rules[0]->report().models(), 2 * (now / 4)) << "of both children";
    EXPECT_EQ(mixers.rules[1]->report().models(), now / 6 + 2 * (now / 2));
    EXPECT_EQ(mixers.rules[5]->report().models(), now / 3);
  }
  mixers.settle();
}

// Sum-weight, by its formula

TEST(SumWeight, WhoHearsTakesTheMeanByBothWeights) {
  Mixers mixers(mixing_of("sum-weight", "mesh", 2), 17);
  const Vectors before = mixers.weights;
  mixers.mix_one(0);
  mixers.attend_one(1);
  EXPECT_EQ(mixers.shares(), (std::vector<double>{0.25, 0.75}));
  mixers.mix_one(1);
  mixers.attend_one(0);
  EXPECT_EQ(mixers.shares(), (std::vector<double>{0.625, 0.375}));
  for (std::size_t i = 0; i < 17; ++i) {
    const double a = static_cast<double>(before[0][i]), b = static_cast<double>(before[1][i]);
    const double second = (0.25 * a + 0.5 * b) / 0.75;
    EXPECT_NEAR(mixers.weights[1][i], second, 3e-7);
    EXPECT_NEAR(mixers.weights[0][i], (0.25 * a + 0.375 * second) / 0.625, 3e-7);
  }
  mixers.settle();
}

TEST(SumWeight, NeverSendsAModelThatCountsForNothing) {
  Mixers mixers(mixing_of("sum-weight", "mesh", 2), 3);
  for (int i = 0; i < 300; ++i) {  // it hears nothing, and halves its weight every time
    mixers.mix_one(0);
    mixers.attend_one(1);
  }
  EXPECT_GT(mixers.rules[0]->report().skipped, 100u);
  EXPECT_GT(mixers.shares()[0], 0);
  EXPECT_NEAR(sum_of(mixers.shares()), 1, 1e-6);
  mixers.settle();
}

// Updates, by their formula

TEST(Updates, WhatOneHasChangedOthersAdd) {
  for (const char* codec : {"raw", "half", "top-k", "threshold"}) {
    MixingSettings settings = mixing_of("updates", "mesh", 3);
    settings.codec.kind = named<CodecSettings::Kind>(codec);
    settings.codec.share = 0.1;
    settings.codec.threshold = 0.0625;
    Mixers mixers(settings, 40);  // away from zero already: that is everybody's first change
    Vectors changes = mixers.weights;
    for (int round = 0; round < 100; ++round) {
      for (std::size_t rank = 0; rank < 3; ++rank) {
        if (round < 5) {
          for (std::size_t i = 0; i < 40; ++i) {
            const float step = 0.01f * static_cast<float>((i + rank) % 5);
            mixers.weights[rank][i] += step;
            changes[rank][i] += step;
          }
        }
        mixers.attend_one(rank);
        mixers.mix_one(rank);
      }
    }
    mixers.settle();
    // By now all has been said but what a threshold leaves.
    const double left = codec == std::string("threshold") ? 2 * 0.0625 : 0;
    for (std::size_t i = 0; i < 40; ++i) {
      double sum = 0;
      for (const Floats& change : changes) sum += static_cast<double>(change[i]);
      for (const Floats& weights : mixers.weights) {
        EXPECT_NEAR(weights[i], sum, left + 5e-6) << codec << " " << i;
      }
    }
  }
}

// A worker's own change is in its weights in full; others know of all but the residual.
TEST(Updates, WhatIsSentAndWhatIsLeftAreTheChange) {
  MixingSettings settings = mixing_of("updates", "mesh", 2);
  settings.codec.kind = CodecSettings::Kind::threshold;
  settings.codec.threshold = 0.5;
  Mixers mixers(settings, 4);
  mixers.weights = {{0.625f, -0.75f, 0.25f, 2.0f}, Floats(4)};
  const auto round = [&] {
    mixers.attend_one(0);
    mixers.mix_one(0);
    mixers.attend_one(1);
  };
  round();
  EXPECT_EQ(mixers.weights[1], (Floats{0.5f, -0.5f, 0, 0.5f}));
  round();
  EXPECT_EQ(mixers.weights[1], (Floats{0.5f, -0.5f, 0, 1.0f}));
  mixers.weights[0][2] += 0.25f;  // with what was left it reaches the threshold
  round();
  EXPECT_EQ(mixers.weights[1], (Floats{0.5f, -0.5f, 0.5f, 1.5f}));
  EXPECT_EQ(mixers.weights[0], (Floats{0.625f, -0.75f, 0.5f, 2.0f}));
  mixers.settle();
}

TEST(Updates, SmallChangesOfLargeWeightsAddUpInTheResidual) {
  MixingSettings settings = mixing_of("updates", "mesh", 2);
  settings.codec.kind = CodecSettings::Kind::threshold;
  settings.codec.threshold = 0.0009765625;  // 2^-10
  Mixers mixers(settings, 1);
  mixers.weights = {{0}, {0}};
  mixers.weights[0][0] = 4096.0f / 1024;  // 4, in as many codes
  double own = 4;
  for (int step = 0; step < 5000; ++step) {
    const float change = 4.76837158203125e-7f;  // 2^-21: exact beside 4
    mixers.weights[0][0] += change;
    own += static_cast<double>(change);
    mixers.attend_one(0);
    mixers.mix_one(0);
    mixers.attend_one(1);
  }
  ASSERT_EQ(static_cast<double>(mixers.weights[0][0]), own);
  EXPECT_NEAR(mixers.weights[1][0], own, 0.0009765625 + 1e-6);
  mixers.settle();
}

// Penalty, by its formula

TEST(Penalty, PullsTowardsTheMastersModelExtrapolated) {
  MixingSettings settings = mixing_of("penalty", "star", 2);
  settings.penalty = 0.3;
  Mixers mixers(settings, 5);
  const auto gradient_at = [&](std::size_t rank, float w) {
    Floats weights(5, w), gradients(5, 0.125f);
    mixers.rules[rank]->bend(weights, gradients, 0);
    return gradients[2];
  };
  // A round at which worker 0, the master, has done `master` steps, and which worker 1 hears of
  // after `worker` steps.
  const auto round = [&](float w0, float w1, std::uint64_t master, std::uint64_t worker) {
    mixers.weights = {Floats(5, w0), Floats(5, w1)};
    mixers.rules[0]->set_clock(master);
    mixers.mix_one(1);
    mixers.attend_one(0);
    mixers.mix_one(0);
    mixers.rules[1]->set_clock(worker);
    mixers.attend_one(1);
  };
  EXPECT_NEAR(gradient_at(1, 2), 0.125 + 0.3 * 2, 1e-6) << "at first the model all began with";

  round(1, 3, 10, 10);  // the master's model becomes 2, and is fresh
  EXPECT_NEAR(gradient_at(0, 1), 0.125 + 0.3 * (1 - 2), 1e-6);
  EXPECT_NEAR(gradient_at(1, 3), 0.125 + 0.3 * (3 - 2), 1e-6);

  round(2, 4, 20, 25);  // 3; half an interval old by the time it comes: on to 3.5
  EXPECT_NEAR(gradient_at(0, 1), 0.125 + 0.3 * (1 - 3), 1e-6);
  EXPECT_NEAR(gradient_at(1, 3), 0.125 + 0.3 * (3 - 3.5), 1e-6);

  round(4, 6, 30, 90);  // 5; very old, but one interval is the most: on to 7
  EXPECT_NEAR(gradient_at(1, 3), 0.125 + 0.3 * (3 - 7), 1e-6);
  mixers.settle();
}

TEST(Penalty, BendsABucketByItsOwnPartOfTheModel) {
  Mixers mixers(mixing_of("penalty", "star", 1), 6);
  mixers.weights = {{1, 2, 3, 4, 5, 6}};
  mixers.mix_one(0);
  Floats weights(2, 0), gradients(2, 0);
  mixers.rules[0]->bend(weights, gradients, 3);
  EXPECT_NEAR(gradients[0], -0.4, 1e-6);
  EXPECT_NEAR(gradients[1], -0.5, 1e-6);
}

TEST(Penalty, TheMastersModelReachesEverybodyDownTheTree) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    MixingSettings settings = mixing_of("penalty", "star", size);
    settings.penalty = 1;
    Mixers mixers(settings, 3);
    const std::vector<double> mean = mean_of(mixers.weights);
    mixers.go_well({.steps = 30});
    for (std::size_t rank = 0; rank < index(size); ++rank) {
      Floats gradients(3);
      mixers.rules[rank]->bend(mixers.weights[rank], gradients, 0);
      for (std::size_t i = 0; i < 3; ++i) {
        const double target = static_cast<double>(mixers.weights[rank][i] - gradients[i]);
        EXPECT_NEAR(target, mean[i], 1e-5) << "n=" << size << " rank=" << rank;
      }
    }
  }
}

// Children before their parents, and nobody but they: so the master has the mean of all, although
// only its own children have written to it, and although rank 0 does not end its step meanwhile.
TEST(Penalty, ModelsClimbTheTreeToTheMaster) {
  for (int size : {2, 3, 5, 8, 13}) {
    for (std::uint64_t seed : {1, 2}) {
      MixingSettings settings = mixing_of("penalty", "star", size);
      settings.penalty = 1;
      Mixers mixers(settings, 3, seed);
      const Ledger& ledger = mixers.cluster.comm(0).ledger();
      std::vector<double> mean = mean_of(mixers.weights);
      for (std::size_t i = 0; i < 3; ++i) mean[i] -= mixers.weights[0][i] / double(size);
      const auto children = std::bit_width(static_cast<unsigned>(size - 1));
      for (int pass = 1; pass <= 2; ++pass) {  // it may have spoken before all had written
        for (std::size_t rank = index(size); rank-- > 1;) mixers.mix_one(rank);
        EXPECT_EQ(ledger.total(Direction::received, Purpose::weights).payload,
                  static_cast<std::uint64_t>(pass * children) *
                      (3 * sizeof(float) + sizeof(LetterHeader)));
      }
      if (size == 2) continue;  // one of two is half, and rank 0 has not written
      for (std::size_t rank = 1; rank < index(size); ++rank) {
        mixers.attend_one(rank);
        Floats gradients(3);
        mixers.rules[rank]->bend(mixers.weights[rank], gradients, 0);
        for (std::size_t i = 0; i < 3; ++i) {  // rank 0's own last model is the one it began with
          EXPECT_NEAR(mixers.weights[rank][i] - gradients[i], mean[i], 1e-5)
              << "n=" << size << " seed=" << seed << " rank=" << rank;
        }
      }
    }
  }
}

// The master's model may come while a step's gradients are still being bent.
TEST(Penalty, AllOfAStepIsPulledTheSameWay) {
  MixingSettings settings = mixing_of("penalty", "star", 3);
  settings.penalty = 1;
  Mixers mixers(settings, 1);
  const auto target = [&](std::size_t rank) {
    Floats gradients(1);
    mixers.rules[rank]->bend(mixers.weights[rank], gradients, 0);
    return mixers.weights[rank][0] - gradients[0];
  };
  mixers.weights = {{0}, {3}, {6}};
  for (std::size_t rank : {1, 2}) mixers.mix_one(rank);
  for (std::size_t rank : {0, 1, 2}) EXPECT_EQ(target(rank), 0) << "rank " << rank;
  for (std::size_t rank : {0, 1, 2}) mixers.attend_one(rank);
  for (std::size_t rank : {0, 1, 2}) EXPECT_EQ(target(rank), 3) << "rank " << rank;
}

// Many workers, each in its own time

struct RuleAndGraph {
  std::string rule, graph;
  bool keeps_mean;
  double alpha = 0.25;
};

class OnesOwnTime : public testing::TestWithParam<RuleAndGraph> {
 protected:
  MixingSettings settings_of(int size) const {
    MixingSettings settings = mixing_of(GetParam().rule, GetParam().graph, size);
    settings.waits = false;
    settings.alpha = settings.beta = GetParam().alpha;
    return settings;
  }
};

TEST_P(OnesOwnTime, BringsAllTogetherWhateverTheOrder) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      for (bool slowed : {false, true}) {
        for (double jitter : {0.0, 0.3}) {
          Mixers mixers(settings_of(size), 17, seed, {{1e9, 100us}, {}});
          const double before = spread(mixers.weights);
          Mixers::Pace pace{.steps = 600, .jitter = jitter, .seed = seed};
          if (slowed) pace.slowed[index(size - 1)] = 4;
          mixers.go_well(pace);
          if (GetParam().graph == "star" && GetParam().rule == "elastic") {
            mixers.weights.erase(mixers.weights.begin());  // has the master's model now
          }
          if (mixers.weights.empty()) continue;
          EXPECT_LT(spread(mixers.weights), 0.03 * before + 1e-6)
              << "n=" << size << " seed=" << seed << " slowed=" << slowed << " jitter=" << jitter;
        }
      }
    }
  }
}

TEST_P(OnesOwnTime, KeepsTheWeightedMeanOfAll) {
  if (!GetParam().keeps_mean) GTEST_SKIP();
  const bool star = GetParam().graph == "star";
  for (int size : {1, 2, 3, 5, 8, 13}) {
    for (std::uint64_t seed : {1, 2, 3}) {
      Mixers mixers(settings_of(size), 17, seed, {{1e9, 100us}, {}});
      std::vector<double> mean = mean_of(mixers.weights);
      Mixers::Pace pace{.steps = 100, .seed = seed};
      pace.slowed[0] = 3;
      mixers.go_well(pace);
      if (star) continue;
      const std::vector<double> shares = mixers.shares();
      EXPECT_LT(difference(mean_of(mixers.weights, shares), mean), 1e-5)
          << "n=" << size << " seed=" << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OnesOwnTime,
    testing::Values(
        RuleAndGraph{"mean", "window", false}, RuleAndGraph{"mean", "closed-ring", false},
        RuleAndGraph{"mean", "exponential", false}, RuleAndGraph{"mean", "tree", false},
        RuleAndGraph{"mean", "mesh", false}, RuleAndGraph{"elastic-push", "tree", false},
        RuleAndGraph{"elastic-push", "closed-ring", false},
        RuleAndGraph{"elastic", "star", false, 0.2}, RuleAndGraph{"elastic", "mesh", true},
        RuleAndGraph{"elastic", "mesh", true, 0.5},
        RuleAndGraph{"elastic", "closed-ring", true, 0.5}, RuleAndGraph{"elastic", "window", true},
        RuleAndGraph{"sum-weight", "mesh", true}, RuleAndGraph{"sum-weight", "window", true},
        RuleAndGraph{"sum-weight", "exponential", true}),
    [](const auto& test) {
      return message_of(test.param.rule + " " + test.param.graph +
                        (test.param.alpha == 0.5 ? " all the way" : ""));
    });

// The sum over all workers and the master is kept: what the master gains the workers lose.
TEST(Elastic, OnAStarNothingIsLostBetweenWorkersAndMaster) {
  for (int size : {2, 3, 5, 8}) {
    MixingSettings settings = mixing_of("elastic", "star", size);
    settings.alpha = settings.beta = 0.2;
    Mixers mixers(settings, 17, 7, {{1e9, 100us}, {}});
    const std::vector<double> before = mean_of(mixers.weights);
    // Rank 0's own model is gone after settle; without it, it is what is left of the sum.
    mixers.go_well({.steps = 50, .settle = false});
    mixers.wait();
    const Floats own = mixers.weights[0];
    mixers.settle();
    for (std::size_t i = 0; i < 17; ++i) {
      double sum = static_cast<double>(own[i]);
      for (const Floats& weights : mixers.weights) sum += static_cast<double>(weights[i]);
      EXPECT_NEAR(sum, before[i] * size, 2e-5) << size;
    }
  }
}

TEST(SumWeight, SharesAreOneTogetherAfterAllHasCome) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    for (std::uint64_t seed : {1, 2, 3, 4}) {
      MixingSettings settings = mixing_of("sum-weight", "mesh", size);
      settings.seed = seed;
      Mixers mixers(settings, 1000, seed, {{1e7, 1ms}, {}});
      Mixers::Pace pace{.steps = 60, .jitter = 1, .seed = seed};
      pace.slowed[0] = 5;
      mixers.go_well(pace);
      EXPECT_NEAR(sum_of(mixers.shares()), 1, 1e-5) << size;
    }
  }
}

TEST(SumWeight, ALostWorkerTakesNoMoreThanItsOwnAndWhatWasOnItsWay) {
  for (int size : {2, 3, 5, 8}) {
    for (Time crash : {105ms, 211ms, 302ms}) {
      // Letters take 40 ms to leave: some have not when their receiver is lost.
      Mixers mixers(mixing_of("sum-weight", "mesh", size), 1000, 1, {{1e5, 100us}, {}});
      mixers.cluster.crash(size - 1, crash);
      expect_all_well(mixers.go({.steps = 60}));
      std::vector<double> shares = mixers.shares();
      shares.pop_back();
      EXPECT_LE(sum_of(shares), 1 + 1e-6);
      EXPECT_GT(sum_of(shares), 0.05) << size;
      for (double share : shares) EXPECT_GT(share, 0) << size;
    }
  }
}

// The only other one is lost before anything has left: all weight comes back.
TEST(SumWeight, ALetterThatNeverLeftGivesItsWeightBack) {
  Mixers mixers(mixing_of("sum-weight", "mesh", 2), 1000, 1, {{1e3, 0us}, {}});
  mixers.cluster.crash(1, mixers.cluster.loop().now() + 50ms);
  expect_all_well(mixers.go({.steps = 10, .jitter = 0}));
  EXPECT_EQ(mixers.shares()[0], 0.5);
}

// Letters

// One lies there, the next is on its way: a slow worker hears of the present, not of long ago.
TEST(Letters, NobodyCanFloodWhoDoesNotRead) {
  for (const char* rule : {"elastic-push", "sum-weight", "updates"}) {
    Mixers mixers(mixing_of(rule, "mesh", 2), 3);
    for (int i = 0; i < 50; ++i) {
      for (float& value : mixers.weights[0]) value += 1;
      mixers.attend_one(0);
      mixers.mix_one(0);
    }
    EXPECT_GE(mixers.rules[0]->report().skipped, 48u) << rule;
    for (int i = 0; i < 60; ++i) mixers.attend_one(1);
    EXPECT_LE(mixers.rules[1]->report().models(), 2u) << rule;
    mixers.settle();
  }
}

// Rank 0 trains a model of 3 weights, rank 1 one of 5.
TEST(Letters, AnotherProgramsLetterIsAnErrorNotNonsense) {
  const MixingSettings settings = mixing_of("elastic-push", "mesh", 2);
  Cluster cluster(2);
  const auto a = make_mixing(settings, cluster.comm(0), 1);
  const auto b = make_mixing(settings, cluster.comm(1), 1);
  Floats few(3), many(5);
  cluster.run([&](Comm& comm) { return comm.rank() == 0 ? a->start(few) : b->start(many); });
  cluster.run([&](Comm& comm) { return comm.rank() == 0 ? a->mix(few, 0) : b->mix(many, 0); });
  cluster.run([&](Comm& comm) { return sleep_until(comm.loop(), comm.loop().now() + 1ms); });
  const std::string remedy =
      "; all workers must run the same program with the same model and settings";
  EXPECT_TRUE(cluster.comm(0).is_lost(1)) << "its letter is too long for anything we know of";
  EXPECT_EQ(error_of([&] { b->attend(many); }),
            "rank 0 sent 12 bytes where 20 were expected" + remedy);
}

// Two that write to each other, without any rule.
class Post : public testing::Test {
 protected:
  Post() : cluster_(2), ranks_({0, 1}) {}

  // What happens until nothing is under way any more.
  void wait() {
    cluster_.run([](Comm& comm) { return sleep_until(comm.loop(), comm.loop().now() + 1ms); });
  }
  static LetterHeader kind(std::uint32_t kind) {
    LetterHeader header;
    header.kind = kind;
    return header;
  }
  // The kinds of the letters that lie there.
  static std::vector<std::uint32_t> read(Letters& letters) {
    std::vector<std::uint32_t> kinds;
    letters.read_all([&](const Letter& letter) {
      kinds.push_back(letter.header.kind);
      return true;
    });
    return kinds;
  }

  Cluster cluster_;
  std::vector<int> ranks_;
};

TEST_F(Post, TakesTheLongestLetterAndNoneThatIsLonger) {
  const std::vector<std::byte> bytes(9);
  Letters small(cluster_.comm(0), ranks_, 8), large(cluster_.comm(1), ranks_, 9);
  large.send(0, kind(1), large.write(ConstBytes(bytes).first(8)));
  wait();
  EXPECT_EQ(read(small), std::vector<std::uint32_t>{1});
  large.send(0, kind(2), large.write(bytes));
  wait();
  EXPECT_EQ(read(small), std::vector<std::uint32_t>{});
  EXPECT_TRUE(cluster_.comm(0).is_lost(1));
}

TEST_F(Post, ALetterThatIsRefusedStaysAndTheNextOneWaits) {
  Letters reader(cluster_.comm(0), ranks_, 8), writer(cluster_.comm(1), ranks_, 8);
  writer.send(0, kind(1), writer.write({}));
  wait();
  ASSERT_TRUE(writer.can_send(0)) << "the first has arrived";
  writer.send(0, kind(2), writer.write({}));
  wait();
  EXPECT_FALSE(writer.can_send(0)) << "the second has not";
  std::vector<std::uint32_t> offered;
  reader.read_all([&](const Letter& letter) {
    offered.push_back(letter.header.kind);
    return false;
  });
  wait();
  EXPECT_EQ(offered, std::vector<std::uint32_t>{1});
  EXPECT_EQ(read(reader), std::vector<std::uint32_t>{1});
  EXPECT_EQ(read(reader), std::vector<std::uint32_t>{}) << "the next one is still on its way";
  wait();
  EXPECT_EQ(read(reader), std::vector<std::uint32_t>{2});
  wait();
  EXPECT_TRUE(writer.can_send(0));
}

Task<> until_news(Letters& letters, int& times) {
  while (true) {
    co_await letters.news().rung();
    ++times;
  }
}

TEST_F(Post, RingsWhenALetterHasComeAndWhenOneHasLeft) {
  Letters reader(cluster_.comm(0), ranks_, 8), writer(cluster_.comm(1), ranks_, 8);
  int read_news = 0, written_news = 0;
  Running reading(until_news(reader, read_news)), writing(until_news(writer, written_news));
  writer.send(0, kind(1), writer.write({}));
  wait();
  EXPECT_GE(read_news, 1);
  EXPECT_GE(written_news, 1);
}

TEST_F(Post, IsOverWhenBothHaveSaidSoAndAllHasLeft) {
  Letters one(cluster_.comm(0), ranks_, 8), other(cluster_.comm(1), ranks_, 8);
  EXPECT_FALSE(one.close()) << "its goodbye is still leaving";
  wait();
  EXPECT_FALSE(one.close()) << "the other one may still write";
  other.send(0, kind(1), other.write({}));
  wait();
  EXPECT_FALSE(other.close());
  wait();
  EXPECT_FALSE(one.close()) << "the letter before the other's goodbye lies unread";
  EXPECT_EQ(read(one), std::vector<std::uint32_t>{1});
  wait();
  EXPECT_TRUE(one.close());
  EXPECT_TRUE(other.close());
  const auto sent = cluster_.comm(0).ledger().total(Direction::sent).payload;
  EXPECT_TRUE(one.close());
  wait();
  EXPECT_EQ(cluster_.comm(0).ledger().total(Direction::sent).payload, sent)
      << "goodbye is said once";
}

TEST_F(Post, IsNotOverBeforeItsOwnGoodbyeHasLeft) {
  Letters one(cluster_.comm(0), ranks_, 8), other(cluster_.comm(1), ranks_, 8);
  other.close();
  wait();
  EXPECT_FALSE(one.close());
  wait();
  EXPECT_TRUE(one.close());
}

TEST_F(Post, IsOverWithoutWhoIsLost) {
  Group(cluster_.comm(0)).contain_losses();
  Letters one(cluster_.comm(0), ranks_, 8);
  cluster_.crash(1, cluster_.loop().now());
  wait();
  EXPECT_FALSE(one.can_send(1));
  EXPECT_TRUE(one.close());
}

// The first peer has not said goodbye, the last one has.
TEST(Letters, AreOverWhenAllPeersSaySo) {
  Cluster cluster(3);
  const std::vector<int> ranks = {0, 1, 2};
  Letters one(cluster.comm(0), ranks, 8), first(cluster.comm(1), ranks, 8),
      last(cluster.comm(2), ranks, 8);
  const auto wait = [&] {
    cluster.run([](Comm& comm) { return sleep_until(comm.loop(), comm.loop().now() + 1ms); });
  };
  last.close();
  one.close();
  wait();
  EXPECT_FALSE(one.close());
  first.close();
  wait();
  EXPECT_TRUE(one.close());
}

// Letters so long that there is not room for all: of 5 MB, rank 0 takes in two at a time.
class LongLetters : public testing::Test {
 protected:
  static constexpr std::size_t kLong = 9'000'000;  // more than short ones may take together

  LongLetters() : cluster_(4), bytes_(kLong) {
    const std::vector<int> ranks = {0, 1, 2, 3};
    for (int rank = 0; rank < 4; ++rank) {
      letters_.push_back(std::make_unique<Letters>(cluster_.comm(rank), ranks, kLong));
    }
  }

  Letters& of(int rank) { return *letters_[index(rank)]; }
  void send(int from, int to) { of(from).send(to, {}, of(from).write(bytes_)); }
  void wait() {
    cluster_.run([](Comm& comm) { return sleep_until(comm.loop(), comm.loop().now() + 1ms); });
  }
  // Whose letters lie at rank 0; reads them, or leaves them there.
  std::vector<int> lying(bool read) {
    std::vector<int> writers;
    of(0).read_all([&](const Letter& letter) {
      writers.push_back(letter.from);
      return read;
    });
    wait();
    return writers;
  }

  Cluster cluster_;
  std::vector<std::byte> bytes_;
  std::vector<std::unique_ptr<Letters>> letters_;
};

TEST_F(LongLetters, WaitWithTheirWritersWhileThereIsNoRoom) {
  for (int from : {1, 2, 3}) send(from, 0);
  wait();
  EXPECT_EQ(lying(false), (std::vector<int>{1, 2}));
  EXPECT_TRUE(of(2).can_send(0) && of(2).can_write());
  EXPECT_FALSE(of(3).can_send(0));
  EXPECT_FALSE(of(3).can_write()) << "its only sheet has not left";
  EXPECT_EQ(lying(true), (std::vector<int>{1, 2}));
  EXPECT_EQ(lying(true), (std::vector<int>{3}));
  EXPECT_TRUE(of(3).can_send(0) && of(3).can_write());
}

TEST_F(LongLetters, FindRoomWhenOthersHaveSaidGoodbye) {
  for (int from : {1, 2}) EXPECT_FALSE(of(from).close());
  wait();
  send(3, 0);
  wait();
  EXPECT_EQ(lying(true), (std::vector<int>{3}));
}

TEST_F(LongLetters, OneSheetGoesToSeveral) {
  const SharedSheet sheet = of(0).write(bytes_);
  for (int to : {1, 2, 3}) of(0).send(to, {}, sheet);
  EXPECT_FALSE(of(0).can_write());
  wait();
  for (int to : {1, 2, 3}) {
    int letters = 0;
    of(to).read_all([&](const Letter&) { return ++letters > 0; });
    EXPECT_EQ(letters, 1) << to;
  }
}

TEST_F(LongLetters, WhoKeepsASheetMakesRoom) {
  for (int from : {1, 2, 3}) send(from, 0);
  wait();
  std::vector<SharedSheet> kept;
  of(0).read_all([&](const Letter& letter) {
    letter.sheet->take_from_shelf();
    kept.push_back(letter.sheet);
    return true;
  });
  wait();
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(lying(true), (std::vector<int>{3}));
}

TEST_F(LongLetters, WhoIsLostWhileItWaitsForRoomIsOver) {
  Group(cluster_.comm(0)).contain_losses();
  for (int from : {1, 2, 3}) send(from, 0);
  wait();
  cluster_.crash(3, cluster_.loop().now());
  wait();
  EXPECT_EQ(lying(true), (std::vector<int>{1, 2}));
  EXPECT_EQ(lying(true), (std::vector<int>{})) << "its letter will not come";
  EXPECT_FALSE(of(0).can_send(3));
}

TEST(LongModels, OneCopyGoesToAllNeighbours) {
  Mixers mixers(mixing_of("elastic-push", "tree", 3), 1'300'000);
  mixers.mix_one(0);
  for (std::size_t rank : {1, 2}) {
    mixers.attend_one(rank);
    EXPECT_EQ(mixers.rules[rank]->report().models(), 1u) << rank;
  }
  mixers.settle();
}

// Every rule, with models of which few can be under way: nobody waits for ever for another's room.
TEST(LongModels, AreMixedByEveryRuleWithoutALock) {
  constexpr std::size_t kElements = 1'300'000;
  for (const auto& [rule, graph] :
       {std::pair{"elastic", "mesh"}, std::pair{"elastic", "star"},
        std::pair{"elastic-push", "tree"}, std::pair{"sum-weight", "mesh"},
        std::pair{"penalty", "star"}, std::pair{"updates", "mesh"}}) {
    MixingSettings settings = mixing_of(rule, graph, 4);
    settings.waits = false;
    Mixers mixers(settings, kElements, 1, {{1e10, 100us}, {}});
    mixers.go_well({.steps = 8});
    EXPECT_GT(mixers.report().models(), 4u) << rule << " " << graph;
  }
}

// Losses

// The partner dies between question and answer: who asked goes on with others, and comes to its
// end.
TEST(Elastic, WaitsForNoAnswerFromALostPartner) {
  for (int size : {2, 3}) {
    Mixers mixers(mixing_of("elastic", "mesh", size), 3);
    int asked = 0;
    mixers.cluster.observe([&](int from, int to, ConstBytes) {
      if (from == 0) asked = to;
    });
    mixers.mix_one(0);
    ASSERT_GT(asked, 0);
    mixers.cluster.crash(asked, mixers.cluster.loop().now() + 1ms);
    expect_all_well(mixers.go({.steps = 20}));
    if (size == 3) {
      EXPECT_GT(mixers.rules[0]->report().models(), 5u) << "it asks the other one";
    }
  }
}

TEST(LostWorkers, AreNotDrawnForPartners) {
  for (const char* rule : {"elastic", "sum-weight"}) {
    Mixers mixers(mixing_of(rule, "mesh", 4), 3);
    for (int lost : {1, 3}) mixers.cluster.crash(lost, mixers.cluster.loop().now());
    mixers.wait();
    for (int i = 0; i < 10; ++i) {
      mixers.mix_one(0);
      mixers.attend_one(2);
      mixers.attend_one(0);
    }
    EXPECT_EQ(mixers.rules[0]->report().skipped, 0u) << rule;
    EXPECT_EQ(mixers.rules[2]->report().models(), 10u) << rule << ": all came to who is left";
  }
}

// A question that cannot be answered must not lie in the way for ever.
TEST(Elastic, AnswersNobodyWhoIsLost) {
  Mixers mixers(mixing_of("elastic", "mesh", 2), 3);
  mixers.mix_one(1);  // its question lies at rank 0
  const Floats before = mixers.weights[0];
  mixers.cluster.crash(1, mixers.cluster.loop().now());
  mixers.wait();
  mixers.attend_one(0);
  EXPECT_EQ(mixers.weights[0], before) << "rank 0 moved towards one that does not";
  expect_all_well(mixers.go({.steps = 3}));
}

TEST(Penalty, ALostWorkerIsNoPartOfTheMean) {
  MixingSettings settings = mixing_of("penalty", "star", 3);
  settings.penalty = 1;
  Mixers mixers(settings, 3);
  mixers.mix_one(2);
  mixers.attend_one(0);  // the master has its model now
  mixers.cluster.crash(2, mixers.cluster.loop().now());
  mixers.wait();
  mixers.mix_one(1);
  mixers.mix_one(0);
  Floats gradients(3);
  mixers.rules[0]->bend(mixers.weights[0], gradients, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    const float mean = (mixers.weights[0][i] + mixers.weights[1][i]) / 2;
    EXPECT_NEAR(mixers.weights[0][i] - gradients[i], mean, 1e-6);
  }
}

// Of five, rank 1 is lost, which would have passed the model on to rank 3.
TEST(Penalty, TheTreeLeavesNobodyBehindALostWorker) {
  for (int lost : {1, 2, 3, 4}) {
    MixingSettings settings = mixing_of("penalty", "star", 5);
    settings.penalty = 1;
    Mixers mixers(settings, 3);
    mixers.cluster.crash(lost, mixers.cluster.loop().now());
    expect_all_well(mixers.go({.steps = 40}));
    Vectors left = mixers.weights;
    left.erase(left.begin() + lost);
    const std::vector<double> mean = mean_of(left);
    for (int rank = 0; rank < 5; ++rank) {
      if (rank == lost) continue;
      Floats gradients(3);
      mixers.rules[index(rank)]->bend(mixers.weights[index(rank)], gradients, 0);
      for (std::size_t i = 0; i < 3; ++i) {
        const double target = static_cast<double>(mixers.weights[index(rank)][i] - gradients[i]);
        EXPECT_NEAR(target, mean[i], 1e-5) << "without " << lost << ", rank " << rank;
      }
    }
  }
}

// Ages

TEST(Push, ALetterIsAsOldAsTheStepsSinceItWasWritten) {
  Mixers mixers(mixing_of("elastic-push", "mesh", 2), 3);
  const auto send = [&](std::uint64_t writer, std::uint64_t reader) {
    mixers.rules[0]->set_clock(writer);
    mixers.mix_one(0);
    mixers.rules[1]->set_clock(reader);
    mixers.attend_one(1);
  };
  send(5, 8);
  EXPECT_EQ(mixers.rules[1]->report().staleness.sum, 3u);
  send(9, 2);  // written by one that is ahead
  EXPECT_EQ(mixers.rules[1]->report().staleness.sum, 3u);
  EXPECT_EQ(mixers.rules[1]->report().staleness.max, 3u);
}

TEST(Elastic, AnAnswerIsAsOldAsItsQuestion) {
  Mixers mixers(mixing_of("elastic", "mesh", 2), 3);
  mixers.rules[0]->set_clock(3);
  mixers.mix_one(0);
  mixers.rules[1]->set_clock(10);
  mixers.attend_one(1);
  EXPECT_EQ(mixers.rules[1]->report().staleness.sum, 7u);
  mixers.rules[0]->set_clock(12);
  mixers.attend_one(0);
  EXPECT_EQ(mixers.rules[0]->report().staleness.sum, 9u);
}

// Letters that no rule of ours would write: rank 0's rule reads what rank 1 has made up, or the
// other way around.
class MadeUp {
 public:
  MadeUp(const std::string& rule, const std::string& graph, int reader)
      : reader_(reader), cluster_(2) {
    MixingSettings settings = mixing_of(rule, graph, 2);
    settings.penalty = 1;
    rule_ = make_mixing(settings, cluster_.comm(reader), 1);
    letters_.emplace(cluster_.comm(1 - reader), std::vector<int>{0, 1}, 4);
    cluster_.run([&](Comm& comm) {
      return comm.rank() == reader_ ? rule_->start(weights) : sleep_until(comm.loop(), 0ms);
    });
  }
  // What the reader says to it.
  std::string send(const LetterHeader& header, float value) {
    const std::vector<float> model = {value};
    letters_->send(reader_, header, letters_->write(std::as_bytes(std::span(model))));
    cluster_.run([](Comm& comm) { return sleep_until(comm.loop(), comm.loop().now() + 1ms); });
    return error_of([&] { rule_->attend(weights); });
  }
  float target() const {
    Floats gradients(1);
    rule_->bend(weights, gradients, 0);
    return weights[0] - gradients[0];
  }
  Mixing& rule() { return *rule_; }

  Floats weights = {0};

 private:
  int reader_;
  Cluster cluster_;
  std::unique_ptr<Mixing> rule_;
  std::optional<Letters> letters_;
};

TEST(SumWeight, RefusesWeightsThatCannotBe) {
  for (float weight : {std::nanf(""), 0.0f, -0.25f, 0.6f}) {
    MadeUp letter("sum-weight", "mesh", 0);
    LetterHeader header;
    header.weight = weight;
    EXPECT_EQ(letter.send(header, 1),
              fmt::format("rank 1 sent a model of weight {}; all workers must run the same program",
                          weight));
  }
  MadeUp letter("sum-weight", "mesh", 0);
  LetterHeader header;
  header.weight = 0.5f;
  EXPECT_EQ(letter.send(header, 1), "");
  EXPECT_EQ(letter.rule().final_share(), 1);
  EXPECT_EQ(letter.weights[0], 0.5f);
}

TEST(Penalty, RefusesTheMeanOfSoManyModelsAsThereCannotBe) {
  for (float models : {std::nanf(""), 0.0f, 2.0f}) {
    MadeUp letter("penalty", "star", 0);
    LetterHeader header;
    header.weight = models;
    EXPECT_EQ(letter.send(header, 1),
              fmt::format("rank 1 sent the mean of {} models; all workers must run the same "
                          "program with the same settings",
                          models));
  }
}

TEST(Penalty, AModelThatWasOvertakenOnItsWayIsNotAdopted) {
  MadeUp letter("penalty", "star", 1);
  letter.rule().set_clock(10);
  LetterHeader header;
  header.kind = 1;
  header.clock = 10;
  EXPECT_EQ(letter.send(header, 5), "");
  EXPECT_EQ(letter.target(), 5);
  header.clock = 4;
  EXPECT_EQ(letter.send(header, 3), "");
  EXPECT_EQ(letter.target(), 5);
}

TEST(Penalty, TheMasterSpeaksWhenMoreThanHalfHaveWrittenAnew) {
  MixingSettings settings = mixing_of("penalty", "star", 4);
  settings.penalty = 1;
  Mixers mixers(settings, 1);
  mixers.weights = {{0}, {4}, {8}, {12}};  // 3 writes to 2, and 1 and 2 to the master
  const auto write = [&](std::size_t rank) {
    mixers.mix_one(rank);
    mixers.attend_one(0);
    Floats gradients(1);
    mixers.rules[0]->bend(mixers.weights[0], gradients, 0);
    return mixers.weights[0][0] - gradients[0];
  };
  EXPECT_EQ(write(3), 0);
  EXPECT_EQ(write(2), 0) << "two of four are half";
  EXPECT_EQ(write(1), 6);
  mixers.weights[1] = {400};
  EXPECT_EQ(write(1), 6) << "the others have not written since";
  EXPECT_EQ(write(2), 105);
}

// Rank 1 does not read for a while: what rank 0 does meanwhile reaches it later, and rank 2 too.
TEST(Updates, WhatOneCannotTakeYetIsLostForNobody) {
  Mixers mixers(mixing_of("updates", "mesh", 3), 1);
  mixers.weights = {{0}, {0}, {0}};
  for (int i = 0; i < 10; ++i) {
    mixers.weights[0][0] += 1;
    mixers.attend_one(0);
    mixers.mix_one(0);
    mixers.attend_one(2);
  }
  EXPECT_GT(mixers.rules[0]->report().skipped, 0u);
  for (int i = 0; i < 10; ++i) {
    mixers.attend_one(1);
    mixers.attend_one(0);
    mixers.mix_one(0);
    mixers.attend_one(2);
  }
  EXPECT_EQ(mixers.weights[1][0], 10);
  EXPECT_EQ(mixers.weights[2][0], 10);
}

TEST(Updates, ALostWorkerKeepsNobodyFromHearing) {
  Mixers mixers(mixing_of("updates", "mesh", 3), 1);
  mixers.weights = {{0}, {0}, {0}};
  mixers.cluster.crash(1, mixers.cluster.loop().now());
  mixers.wait();
  for (int i = 0; i < 3; ++i) {
    mixers.weights[0][0] += 1;
    mixers.attend_one(0);
    mixers.mix_one(0);
    mixers.attend_one(2);
  }
  EXPECT_EQ(mixers.weights[2][0], 3);
  EXPECT_EQ(mixers.rules[0]->report().skipped, 0u);
}

TEST(MixReport, AddsUpOverWorkers) {
  MixReport one, other;
  one.rounds = 3;
  one.skipped = 1;
  one.mixed(2, 0.5);
  other.rounds = 4;
  other.skipped = 2;
  other.mixed(7, 0.25);
  other.mixed(1000);
  one += other;
  EXPECT_EQ(one.rounds, 7u);
  EXPECT_EQ(one.skipped, 3u);
  EXPECT_EQ(one.models(), 3u);
  EXPECT_EQ(one.staleness.sum, 1009u);
  EXPECT_EQ(one.staleness.max, 1000u);
  EXPECT_EQ(one.squared_distance_sum, 0.75);
  EXPECT_EQ(one.staleness.histogram[2], 1u);
  EXPECT_EQ(one.staleness.histogram[7], 1u);
  EXPECT_EQ(one.staleness.histogram[Staleness::kLongest], 1u);
}

}  // namespace
}  // namespace starling
