#include "mixing/mixing.h"

#include "base/check.h"

namespace starling {

MixReport& MixReport::operator+=(const MixReport& other) {
  rounds += other.rounds;
  skipped += other.skipped;
  staleness += other.staleness;
  squared_distance_sum += other.squared_distance_sum;
  return *this;
}

std::unique_ptr<Mixing> make_mixing(const MixingSettings& settings, Group group,
                                    std::uint64_t samples) {
  if (settings.rule == "push-sum") return make_push_sum_mixing(settings, group);
  if (settings.rule == "outer") return make_outer_mixing(settings, group);
  if (settings.rule == "sampled") return make_sampled_mixing(settings, group, samples);
  if (settings.rule == "elastic") return make_elastic_mixing(settings, group);
  if (settings.rule == "elastic-push") return make_push_mixing(settings, group);
  if (settings.rule == "sum-weight") return make_sum_weight_mixing(settings, group);
  if (settings.rule == "updates") return make_updates_mixing(settings, group);
  if (settings.rule == "penalty") return make_penalty_mixing(settings, group);
  STARLING_CHECK(settings.rule == "mean", "'{}' was not checked", settings.rule);
  if (!settings.waits) return make_push_mixing(settings, group);
  if (settings.codec.name != "raw") return make_compressed_mixing(settings, group);
  return make_mean_mixing(settings, group);
}

}  // namespace starling
