#include "measure/tuning.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"
#include "measure/training_run.h"

namespace starling {

Tried tried_at(const MeasureOptions& options, Settings settings, const std::string& name, double lr,
               int seeds) {
  settings.optimizer.lr = lr;
  MeasureOptions some = options;
  some.seeds = 1;
  Tried tried{lr, {}};
  for (int i = 0; i < seeds; ++i, ++settings.seed) {
    try {
      tried.runs.push_back(
          measured_over_seeds(some, settings, fmt::format("{}/lr-{:g}", name, lr)).front());
    } catch (const TrainingBroke& broke) {
      RunSummary broken;
      broken.ended = "failed";
      broken.reason = broke.what();
      tried.runs.push_back(broken);
    }
  }
  return tried;
}

std::size_t best_of(const Subject& subject, const std::vector<Tried>& tried) {
  struct Merit {
    std::size_t reached;
    double samples, quality;
  };
  const auto merit_of = [&](const Tried& each) {
    const Reached reached(subject, each.runs);
    const Sample quality =
        sample_of(each.runs, [&](const RunSummary& run) { return subject.quality(run); });
    return Merit{reached.count(), reached.mean(&Reached::samples).value_or(0), quality.mean()};
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < tried.size(); ++i) {
    const Merit one = merit_of(tried[i]), other = merit_of(tried[best]);
    const bool is_better = one.reached != other.reached ? one.reached > other.reached
                           : one.reached > 0            ? one.samples < other.samples
                                             : subject.is_better(one.quality, other.quality);
    if (is_better) best = i;
  }
  return best;
}

std::string describe(const Subject& subject, const std::vector<Tried>& tried) {
  std::vector<std::string> each;
  for (const Tried& rate : tried) {
    const auto steps = Reached(subject, rate.runs).mean(&Reached::steps);
    each.push_back(
        fmt::format("{:g}: {}", rate.lr, steps ? format_count(std::round(*steps)) : "-"));
  }
  return fmt::format("{}", fmt::join(each, ", "));
}

}  // namespace starling
