// Do the strategies train? Worker i minimizes f_i(w) = |w - c_i|^2 / 2 by gradient steps, with its
// own c_i, through the hooks. Together they are to find mean(c_i), which minimizes the sum of the
// f_i. The gradient is exact, so the only noise is that the workers want different things.
#include <cmath>

#include "tests/strategy/workers.h"
#include "topology/mixing.h"

namespace starling {
namespace {

constexpr double kRate = 0.05;
constexpr std::size_t kElements = 12;

// The distance of the workers from their mean: the root of the mean square.
double spread(const Vectors& vectors) {
  const std::vector<double> mean = mean_of(vectors);
  double sum = 0;
  for (const Floats& vector : vectors) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      sum += std::pow(static_cast<double>(vector[i]) - mean[i], 2);
    }
  }
  return std::sqrt(sum / static_cast<double>(vectors.size()));
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - b[i], 2);
  return std::sqrt(sum);
}

struct Learning {
  double centres_spread;     // how far apart the workers' own minima are
  double distance_at_start;  // of the first weights from mean(c_i)
  double distance_of_mean;   // of the workers' mean from mean(c_i), after the last step
  double distance_of_final;  // of the final model from mean(c_i)
  double widest_spread;      // between the workers, in the last fifty steps
  std::vector<double> loss;  // the sum of the f_i at the workers' mean, every fifty steps
};

Learning train(const Settings& settings) {
  const Vectors centres = random_vectors(settings.workers, kElements, 33);
  const std::vector<double> goal = mean_of(centres);
  Workers workers(settings, kElements, kElements);
  workers.start();
  Learning result{spread(centres), distance(mean_of(workers.weights), goal), 0, 0, 0, {}};
  for (int step = 0; step < 400; ++step) {
    for (std::size_t rank = 0; rank < centres.size(); ++rank) {
      for (std::size_t i = 0; i < kElements; ++i) {
        workers.gradients[rank][i] = workers.weights[rank][i] - centres[rank][i];
      }
    }
    workers.after_backward(2);
    for (std::size_t rank = 0; rank < centres.size(); ++rank) {
      for (std::size_t i = 0; i < kElements; ++i) {
        workers.weights[rank][i] -= static_cast<float>(kRate) * workers.gradients[rank][i];
      }
    }
    workers.after_update();
    if (step >= 350) result.widest_spread = std::max(result.widest_spread, spread(workers.weights));
    if (step % 50 == 0) {
      double loss = 0;
      const std::vector<double> mean = mean_of(workers.weights);
      for (const Floats& centre : centres) {
        loss += std::pow(distance(mean, {centre.begin(), centre.end()}), 2) / 2;
      }
      result.loss.push_back(loss);
    }
  }
  result.distance_of_mean = distance(mean_of(workers.weights), goal);
  workers.finish();
  result.distance_of_final = distance(mean_of(workers.weights), goal);
  return result;
}

struct Case {
  std::string name, strategy;
  int passes = 1, period = 1;
};

class Convergence : public testing::TestWithParam<Case> {};

TEST_P(Convergence, FindsTheMinimumOfTheSumAndKeepsTheFlockTogether) {
  for (int size : {2, 3, 5, 8}) {
    Settings settings = settings_for(GetParam().strategy, size);
    settings.mix.graph.passes = std::min(GetParam().passes, size - 1);
    settings.schedule.period = GetParam().period;
    const Learning result = train(settings);
    ASSERT_GT(result.distance_at_start, 0.5) << "there is nothing to learn";
    EXPECT_LT(result.distance_of_mean, 1e-4) << "n=" << size;
    EXPECT_LT(result.distance_of_final, 1e-4) << "n=" << size;
    EXPECT_LT(result.widest_spread, 0.5 * result.centres_spread) << "n=" << size;
    for (std::size_t i = 1; i < result.loss.size(); ++i) {
      EXPECT_LE(result.loss[i], result.loss[i - 1] + 1e-4) << "n=" << size << " i=" << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Convergence,
                         testing::Values(Case{"allreduce", "allreduce"},
                                         Case{"pairwise", "pairwise"},
                                         Case{"pairwise_two_passes", "pairwise", 2},
                                         Case{"pairwise_every_second", "pairwise", 1, 2},
                                         Case{"exponential", "exponential"}, Case{"local", "local"},
                                         Case{"local_every_fifth", "local", 1, 5}),
                         [](const auto& test) { return test.param.name; });

// The bound of 0.5 above means something: without exchange every worker goes to its own minimum.
TEST(Flock, WithoutExchangeTheFlockFallsApart) {
  for (int size : {2, 3, 5, 8}) {
    const Learning result = train(settings_for("single", size));
    EXPECT_GT(result.widest_spread, 0.99 * result.centres_spread) << size;
    EXPECT_LT(result.distance_of_final, 1e-4) << "finish averages what each has found";
  }
}

// Gradient steps pull a worker off the mean by up to kRate times the spread of the centres, one
// round of mixing shrinks that by rho = cos(pi / n): s <- rho ((1 - kRate) s + kRate c).
TEST(Flock, PairwiseSpreadStaysBelowItsBound) {
  for (int size : {2, 3, 5, 8}) {
    const double rho = pairwise_contraction(size);
    const Learning result = train(settings_for("pairwise", size));
    const double bound = rho * kRate / (1 - rho * (1 - kRate)) * result.centres_spread;
    EXPECT_LE(result.widest_spread, bound + 1e-5) << size;
  }
}

TEST(Flock, AllreduceKeepsAllReplicasEqual) {
  for (int size : {2, 3, 5, 8}) {
    EXPECT_LT(train(settings_for("allreduce", size)).widest_spread, 1e-12) << size;
  }
}

TEST(Flock, MorePassesKeepTheFlockCloser) {
  Settings settings = settings_for("pairwise", 8);
  double last = train(settings).widest_spread;
  for (int passes : {3, 5, 7}) {
    settings.mix.graph.passes = passes;
    const double now = train(settings).widest_spread;
    EXPECT_LT(now, last) << passes;
    last = now;
  }
}

}  // namespace
}  // namespace starling
