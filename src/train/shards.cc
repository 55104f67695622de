#include "train/shards.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "base/range.h"

namespace starling {

namespace {

// By Marsaglia and Tsang; for alpha below 1 as usual through alpha + 1.
double gamma(Random& random, double alpha) {
  if (alpha < 1) {
    const double boosted = gamma(random, alpha + 1);
    return boosted * std::pow(1 - random.uniform(), 1 / alpha);
  }
  const double d = alpha - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

std::vector<std::int64_t> sorted_by_label(std::span<const std::uint8_t> labels, Random& random) {
  std::vector<std::int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span<std::int64_t>(order));
  std::ranges::stable_sort(order, {},
                           [&](std::int64_t i) { return labels[static_cast<std::size_t>(i)]; });
  return order;
}

Shards by_label(std::span<const std::int64_t> order, std::size_t workers, Random& random) {
  std::vector<std::size_t> pieces(2 * workers);
  std::iota(pieces.begin(), pieces.end(), 0);
  random.shuffle(std::span<std::size_t>(pieces));
  Shards shards(workers);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Range range = part(order.size(), pieces.size(), pieces[i]);
    const auto piece = order.subspan(range.begin, range.size());
    shards[i / 2].insert(shards[i / 2].end(), piece.begin(), piece.end());
  }
  return shards;
}

Shards by_dirichlet(std::span<const std::uint8_t> labels, std::span<const std::int64_t> order,
                    std::size_t workers, double alpha, Random& random) {
  Shards shards(workers);
  for (std::size_t begin = 0; begin < order.size();) {
    const std::uint8_t label = labels[static_cast<std::size_t>(order[begin])];
    std::size_t end = begin;
    while (end < order.size() && labels[static_cast<std::size_t>(order[end])] == label) ++end;
    std::vector<double> proportions(workers);
    for (double& each : proportions) each = std::max(gamma(random, alpha), 1e-300);
    const double sum = std::accumulate(proportions.begin(), proportions.end(), 0.0);
    double upto = 0;
    std::size_t at = begin;
    for (std::size_t worker = 0; worker < workers; ++worker) {
      upto += proportions[worker] / sum;
      const std::size_t last =
          worker + 1 == workers
              ? end
              : begin + static_cast<std::size_t>(
                            std::llround(std::min(1.0, upto) * static_cast<double>(end - begin)));
      for (; at < last; ++at) shards[worker].push_back(order[at]);
    }
    begin = end;
  }
  return shards;
}

}  // namespace

Shards share_out(std::span<const std::uint8_t> labels, int workers, TrainSettings::Shards how,
                 double alpha, std::uint64_t seed) {
  Random random{seed, 0x5a4d};
  const std::vector<std::int64_t> order = sorted_by_label(labels, random);
  const auto count = static_cast<std::size_t>(workers);
  STARLING_CHECK(how != TrainSettings::Shards::even, "even shares are dealt out anew");
  if (how == TrainSettings::Shards::label) return by_label(order, count, random);
  return by_dirichlet(labels, order, count, alpha, random);
}

}  // namespace starling
