#include "mixing/mixing.h"

#include <array>

#include "base/random.h"

namespace starling {

namespace {

template <auto make>
std::unique_ptr<Mixing> without_samples(const MixingSettings& settings, Group group,
                                        std::uint64_t) {
  return make(settings, group);
}

std::unique_ptr<Mixing> make_any_mean(const MixingSettings& settings, Group group) {
  if (!settings.waits) return make_push_mixing(settings, group);
  if (settings.codec.kind != CodecSettings::Kind::raw) {
    return make_compressed_mixing(settings, group);
  }
  return make_mean_mixing(settings, group);
}

constexpr auto kRules = [] {
  using enum MixingSettings::Rule;
  return std::array{
      // clang-format off
    //         rule          rounds letters centre alike
    MixingRule{mean,         true,  true,   false, false, without_samples<make_any_mean>},
    MixingRule{push_sum,     true,  false,  false, false, without_samples<make_push_sum_mixing>},
    MixingRule{outer,        true,  false,  false, true,  without_samples<make_outer_mixing>},
    MixingRule{sampled,      true,  false,  true,  true,  make_sampled_mixing},
    MixingRule{elastic,      false, true,   false, true,  without_samples<make_elastic_mixing>},
    MixingRule{elastic_push, false, true,   false, false, without_samples<make_push_mixing>},
    MixingRule{sum_weight,   false, true,   false, false, without_samples<make_sum_weight_mixing>},
    MixingRule{updates,      false, true,   false, true,  without_samples<make_updates_mixing>},
    MixingRule{penalty,      false, true,   true,  true,  without_samples<make_penalty_mixing>},
      // clang-format on
  };
}();
static_assert(is_a_registry(kRules, &MixingRule::rule));

}  // namespace

MixReport& MixReport::operator+=(const MixReport& other) {
  rounds += other.rounds;
  skipped += other.skipped;
  staleness += other.staleness;
  squared_distance_sum += other.squared_distance_sum;
  final_share += other.final_share;
  return *this;
}

CodecStream codec_stream(const MixingSettings& settings, Group group) {
  Random random{settings.seed, static_cast<std::uint64_t>(group.rank()), 0xc0dec};
  return {random.bits(), settings.folds};
}

const MixingRule& mixing_rule(MixingSettings::Rule rule) {
  return kRules[static_cast<std::size_t>(rule)];
}

std::unique_ptr<Mixing> make_mixing(const MixingSettings& settings, Group group,
                                    std::uint64_t samples) {
  return mixing_rule(settings.rule).make(settings, group, samples);
}

}  // namespace starling
