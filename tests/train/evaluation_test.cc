#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/forked_workers.h"

namespace starling {
namespace {

// A model whose scores are its ten weights, whatever it sees.
struct Scores {
  torch::Tensor weights = torch::zeros({10}, torch::requires_grad());
  bool training = true;
  std::size_t seen_in_training = 0, most_at_once = 0;

  Model model() {
    Model model;
    model.parameters.emplace_back("scores", weights);
    model.forward = [this](const torch::Tensor& images) {
      const std::int64_t count = images.size(0);
      if (training) ++seen_in_training;
      most_at_once = std::max(most_at_once, static_cast<std::size_t>(count));
      return weights.unsqueeze(0).expand({count, 10});
    };
    model.set_training = [this](bool now) { training = now; };
    return model;
  }
};

// Of 451 samples every second has label 0, and the rest label 1 to 9 in turn.
Images test_set() {
  DigitSet set;
  set.count = 451;
  set.rows = set.cols = kDigitSide;
  set.pixels.resize(set.count * kDigitSide * kDigitSide);
  for (std::size_t i = 0; i < set.count; ++i) {
    set.labels.push_back(static_cast<std::uint8_t>(i % 2 == 0 ? 0 : 1 + i / 2 % 9));
  }
  return Images(set);
}
double share_of(const Images& images, int label) {
  return static_cast<double>(std::ranges::count(images.labels(), label)) /
         static_cast<double>(images.count());
}
// The mean loss of scores that are `high` for one label and 0 for the others.
double loss_of(double high, double share) { return std::log(std::exp(high) + 9) - share * high; }

Settings settings_for(int workers) {
  Settings settings;
  settings.strategy = workers == 1 ? StrategyKind::single : StrategyKind::pairwise;
  settings.workers = workers;
  return settings;
}

TEST(EvaluateOwn, ScoresAllSamplesOutOfTraining) {
  Scores scores;
  Dist dist(scores.model(), settings_for(1), Job{});
  dist.model().replica().weights[0] = 2;
  const Images images = test_set();
  const Score score = evaluate_own(dist, *whole_learner(dist), images);
  EXPECT_NEAR(score.accuracy, 226.0 / 451, 1e-9);
  EXPECT_NEAR(score.loss, loss_of(2, 226.0 / 451), 1e-5);
  EXPECT_EQ(scores.seen_in_training, 0u);
  EXPECT_TRUE(scores.training) << "training goes on afterwards";
  EXPECT_LE(scores.most_at_once, 200u) << "activations of all samples at once would not fit";
}

TEST(EvaluateMean, ScoresTheMeanOfAllModelsAndLeavesEachAsItWas) {
  constexpr int kWorkers = 3;
  const auto results = Workers::run(kWorkers, 4, [](const Job& job, std::span<float> result) {
    Scores scores;
    Dist dist(scores.model(), settings_for(kWorkers), job);
    const std::span<float> weights = dist.model().replica().weights;
    weights[static_cast<std::size_t>(job.rank)] = job.rank == 2 ? 6.0f : 3.0f;
    const std::vector<float> before(weights.begin(), weights.end());
    const Score score = evaluate_mean(dist, *whole_learner(dist), test_set());
    result[0] = static_cast<float>(score.accuracy);
    result[1] = static_cast<float>(score.loss);
    result[2] = static_cast<float>(score.spread);
    result[3] = std::ranges::equal(weights, before) && scores.training ? 1 : 0;
  });
  // The mean has 1, 1 and 2 for the first three labels.
  const Images images = test_set();
  const double loss = std::log(2 * std::exp(1) + std::exp(2) + 7) - share_of(images, 0) -
                      share_of(images, 1) - 2 * share_of(images, 2);
  // From (3,0,0), (0,3,0) and (0,0,6) to (1,1,2): 9, 9 and 18; their mean is 12.
  const double spread = std::sqrt(12.0 / 6);
  for (const auto& result : results) {
    EXPECT_NEAR(result[0], share_of(images, 2), 1e-6);
    EXPECT_NEAR(result[1], loss, 1e-5);
    EXPECT_NEAR(result[2], spread, 1e-6);
    EXPECT_EQ(result[3], 1) << "its own weights or its mode changed";
  }
}

TEST(EvaluateShared, CountsEverySampleOnce) {
  constexpr int kWorkers = 4;  // 451 samples: one of them has one more
  const auto results = Workers::run(kWorkers, 3, [](const Job& job, std::span<float> result) {
    Scores scores;
    Dist dist(scores.model(), settings_for(kWorkers), job);
    dist.model().replica().weights[1] = 4;
    const Score score = evaluate_shared(dist, *whole_learner(dist), test_set());
    result[0] = static_cast<float>(score.accuracy);
    result[1] = static_cast<float>(score.loss);
    result[2] = static_cast<float>(score.spread);
  });
  const double share = share_of(test_set(), 1);
  for (const auto& result : results) {
    EXPECT_NEAR(result[0], share, 1e-6);
    EXPECT_NEAR(result[1], loss_of(4, share), 1e-5);
    EXPECT_EQ(result[2], 0);
  }
}

}  // namespace
}  // namespace starling
