#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "exchange/collectives.h"
#include "exchange/pairwise.h"
#include "math/vector_math.h"
#include "train/loss.h"

namespace starling {

namespace {

struct Tally {
  double correct = 0;
  double loss = 0;
  double predictions = 0;
  double squared_distance = 0;
};

Tally tally(Dist& dist, Learner& learner, const DataSet& test, Range range) {
  const std::size_t batch = test.samples_at_once();
  const Model& model = dist.model().model();
  model.set_training(false);
  Tally total;
  for (std::size_t begin = range.begin; begin < range.end; begin += batch) {
    const DataSet::Batch samples = test.slice({begin, std::min(begin + batch, range.end)});
    if (const torch::Tensor scores = learner.scores(samples); scores.defined()) {
      const torch::Tensor& targets = samples.targets;
      total.correct += scores.argmax(-1).eq(targets).sum().item<double>();
      total.loss += cross_entropy(scores, targets, torch::kSum).item<double>();
      total.predictions += static_cast<double>(targets.numel());
    }
    dist.loop().poll();  // a worker may have others to serve meanwhile
  }
  model.set_training(true);
  if (dist.copy().size() > 1) {
    dist.run("telling the evaluation",
             broadcast(dist.copy(), kEvaluationChannel, object_bytes(total), learner.who_knows()));
  }
  return total;
}

Score score(const Tally& tally) {
  return {tally.correct / tally.predictions, tally.loss / tally.predictions};
}

}  // namespace

Score evaluate_own(Dist& dist, Learner& learner, const DataSet& test) {
  return score(tally(dist, learner, test, {0, test.count()}));
}

namespace {

// Each worker scores its share; `squared_distance` is from its own model to the one that is scored.
Score evaluate_together(Dist& dist, Learner& learner, const DataSet& test,
                        double squared_distance) {
  const auto size = static_cast<std::size_t>(dist.size());
  const auto rank = static_cast<std::size_t>(dist.rank());
  std::vector<Tally> tallies(size);
  tallies[rank] = tally(dist, learner, test, part(test.count(), size, rank));
  tallies[rank].squared_distance = dist.sum_over_copy(squared_distance);
  const double length = length_of_model(dist);
  const Vector all = std::as_writable_bytes(std::span(tallies));
  const std::vector<Range> pieces = even_pieces(all, dist.size());
  dist.run("adding up the evaluation", all_gather(dist.workers(), kEvaluationChannel, all, pieces));
  Tally total;
  for (const Tally& each : tallies) {
    total.correct += each.correct;
    total.loss += each.loss;
    total.predictions += each.predictions;
    total.squared_distance += each.squared_distance;
  }
  Score result = score(total);
  result.spread = std::sqrt(total.squared_distance / dist.size()) / std::max(1e-30, length);
  return result;
}

}  // namespace

double length_of_model(Dist& dist) {
  return std::sqrt(dist.sum_over_copy(std::pow(dist.model().weights().norm().item<double>(), 2)));
}

Score evaluate_mean(Dist& dist, Learner& learner, const DataSet& test) {
  torch::NoGradGuard no_grad;
  const std::span<float> weights = dist.model().replica().weights;
  const std::vector<float> own(weights.begin(), weights.end());
  dist.run("averaging the models for evaluation",
           mean_of_all(dist.workers(), kEvaluationChannel, weights));
  const Score result = evaluate_together(dist, learner, test, squared_distance(own, weights));
  std::ranges::copy(own, weights.begin());
  return result;
}

Score evaluate_shared(Dist& dist, Learner& learner, const DataSet& test) {
  return evaluate_together(dist, learner, test, 0);
}

}  // namespace starling
