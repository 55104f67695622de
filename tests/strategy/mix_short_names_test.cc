// Pairwise, exponential and local, short names for common mixings, against plain maths: what they
// mix, and when. What all mixings have in common is in mix_test.cc.
#include <functional>

#include "tests/strategy/workers.h"
#include "topology/mixing.h"

namespace starling {
namespace {

// What the weights are after a round, by plain maths.
using Mix = std::function<Vectors(const Vectors& weights, int round)>;

Vectors mean_everywhere(const Vectors& weights) {
  return window_means(weights, static_cast<int>(weights.size()) - 1);
}

// The one-peer exponential graph, by its definition.
Vectors exponential_mix(const Vectors& weights, int round) {
  const std::size_t n = weights.size();
  if (n == 1) return weights;
  int hops = 0;
  while ((std::size_t{1} << hops) < n) ++hops;
  const std::size_t distance = std::size_t{1} << (round % hops);
  Vectors mixed;
  for (std::size_t rank = 0; rank < n; ++rank) {
    const std::vector<double> mean = mean_of({weights[rank], weights[(rank + n - distance) % n]});
    mixed.emplace_back(mean.begin(), mean.end());
  }
  return mixed;
}

// Twelve steps, in which every worker changes its weights in its own way, beside the plain maths
// that mixes after every period-th of them. Returns after which steps something was sent.
std::vector<int> compare(const Settings& settings, const Mix& mix) {
  std::vector<int> sent_after;
  Workers workers(settings, 23, 20);
  workers.start();
  workers.weights = random_vectors(settings.workers, 23, 7);
  Vectors expected = workers.weights;
  for (int step = 1; step <= 12; ++step) {
    const Vectors change = random_vectors(settings.workers, 23, static_cast<std::uint64_t>(step));
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      for (std::size_t i = 0; i < 23; ++i) {
        expected[rank][i] += change[rank][i];
        workers.weights[rank][i] += change[rank][i];
      }
    }
    if (step % settings.schedule.period == 0)
      expected = mix(expected, step / settings.schedule.period - 1);
    const std::uint64_t before = workers.sent_bytes();
    workers.after_update();
    if (workers.sent_bytes() > before) sent_after.push_back(step);
    EXPECT_LT(difference(workers.weights, expected), 2e-6)
        << settings.strategy << " n=" << settings.workers << " passes=" << settings.mix.graph.passes
        << " period=" << settings.schedule.period << " step=" << step;
  }
  return sent_after;
}

std::vector<int> multiples(int period) {
  std::vector<int> steps;
  for (int step = period; step <= 12; step += period) steps.push_back(step);
  return steps;
}

TEST(PairwiseStrategy, AveragesWithItsPredecessorsAfterEveryPeriodthStep) {
  for (int size : kWorkerCounts) {
    for (int passes = 1; passes <= std::max(1, size - 1); ++passes) {
      for (int period : {1, 2, 3, 5}) {
        Settings settings = settings_for("pairwise", size);
        settings.mix.graph.passes = passes;
        settings.schedule.period = period;
        const auto sent_after = compare(settings, [&](const Vectors& weights, int) {
          return size == 1 ? weights : window_means(weights, passes);
        });
        EXPECT_EQ(sent_after, size == 1 ? std::vector<int>{} : multiples(period));
      }
    }
  }
}

TEST(PairwiseStrategy, AveragesAsOftenInARowAsThereArePassesIfTheyRepeat) {
  for (int size : kWorkerCounts) {
    for (int passes = 1; passes <= std::max(1, size - 1); ++passes) {
      for (int period : {1, 3}) {
        Settings settings = settings_for("pairwise", size);
        settings.mix.graph.passes = passes;
        settings.mix.graph.passes_mean = GraphSettings::Passes::repeat;
        settings.schedule.period = period;
        const auto sent_after = compare(settings, [&](Vectors weights, int) {
          for (int pass = 0; pass < passes && size > 1; ++pass) weights = window_means(weights, 1);
          return weights;
        });
        EXPECT_EQ(sent_after, size == 1 ? std::vector<int>{} : multiples(period));
      }
    }
  }
}

TEST(PairwiseStrategy, AveragesWithinGroupsThatChangeIfPassesMeanThat) {
  for (int size : kWorkerCounts) {
    for (int passes = 1; passes <= std::max(1, size - 1); ++passes) {
      for (int period : {1, 3}) {
        Settings settings = settings_for("pairwise", size);
        settings.mix.graph.passes = passes;
        settings.mix.graph.passes_mean = GraphSettings::Passes::group;
        settings.schedule.period = period;
        const auto sent_after = compare(settings, [&](const Vectors& weights, int round) {
          Vectors mixed(weights.size());
          for (const auto& group :
               dealt_groups(size, passes + 1, static_cast<std::uint64_t>(round))) {
            Vectors theirs;
            for (int rank : group) theirs.push_back(weights[static_cast<std::size_t>(rank)]);
            const std::vector<double> mean = mean_of(theirs);
            for (int rank : group) {
              mixed[static_cast<std::size_t>(rank)].assign(mean.begin(), mean.end());
            }
          }
          return mixed;
        });
        EXPECT_EQ(sent_after, size == 1 ? std::vector<int>{} : multiples(period));
      }
    }
  }
}

TEST(PairwiseStrategy, SendsEachWorkersWeightsOnceAPeriod) {
  for (int size : {2, 3, 5, 8}) {
    for (int period : {1, 3, 5}) {
      Settings settings = settings_for("pairwise", size);
      settings.schedule.period = period;
      Workers workers(settings, 23, 20);
      for (int step = 1; step <= 12; ++step) {
        workers.after_update();
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_EQ(workers.sent_bytes(rank, Purpose::weights),
                    static_cast<std::uint64_t>(step / period) * 4 * 23)
              << "n=" << size << " period=" << period << " step=" << step;
        }
      }
    }
  }
}

TEST(ExponentialStrategy, AveragesWithAPartnerWhoseDistanceDoubles) {
  for (int size : kWorkerCounts) {
    for (int period : {1, 2, 3, 5}) {
      Settings settings = settings_for("exponential", size);
      settings.schedule.period = period;
      EXPECT_EQ(compare(settings, exponential_mix),
                size == 1 ? std::vector<int>{} : multiples(period));
    }
  }
}

TEST(ExponentialStrategy, ReachesTheMeanInLog2RoundsOfAPowerOfTwo) {
  Workers workers(settings_for("exponential", 8), 23, 20);
  const Vectors mean = mean_everywhere(workers.weights);
  workers.after_update();
  workers.after_update();
  EXPECT_GT(difference(workers.weights, mean), 0.1);
  workers.after_update();
  EXPECT_LT(difference(workers.weights, mean), 1e-6);
}

TEST(LocalStrategy, TakesTheMeanOfAllAfterEveryPeriodthStep) {
  for (int size : kWorkerCounts) {
    for (int period : {1, 2, 3, 5}) {
      Settings settings = settings_for("local", size);
      settings.schedule.period = period;
      const auto sent_after =
          compare(settings, [](const Vectors& weights, int) { return mean_everywhere(weights); });
      EXPECT_EQ(sent_after, size == 1 ? std::vector<int>{} : multiples(period));
    }
  }
}

TEST(LocalStrategy, GivesAllTheSameBits) {
  Workers workers(settings_for("local", 5), 23, 20);
  workers.after_update();
  for (const Floats& weights : workers.weights) EXPECT_EQ(weights, workers.weights[0]);
}

TEST(SingleStrategy, SendsNothingBetweenStartAndFinish) {
  for (int size : kWorkerCounts) {
    Workers workers(settings_for("single", size), 23, 20);
    workers.start();
    workers.weights = random_vectors(size, 23, 9);
    const Vectors weights = workers.weights, gradients = workers.gradients;
    const std::uint64_t before = workers.sent_bytes();
    for (int step = 0; step < 10; ++step) {
      workers.after_backward(2);
      workers.after_update();
    }
    EXPECT_EQ(workers.sent_bytes(), before);
    EXPECT_EQ(workers.weights, weights);
    EXPECT_EQ(workers.gradients, gradients);
  }
}

}  // namespace
}  // namespace starling
