// Rules that send codes, with and without what codes have left out.
#include "math/vector_math.h"
#include "tests/mixing/mixers.h"

namespace starling {
namespace {

// The mean over public copies by plain maths, in one thread.
class CodedMeanOracle {
 public:
  CodedMeanOracle(const MixingSettings& settings, std::size_t elements)
      : settings_(settings),
        publics_(index(settings.graph.size), Floats(elements)),
        last_(publics_) {
    for (std::uint64_t rank = 0; rank < publics_.size(); ++rank) {
      codecs_.push_back(
          make_codec(settings.codec, {Random{settings.seed, rank, 0xc0dec}.bits(), {}}));
      neighbours_.emplace_back(settings.graph, static_cast<int>(rank));
    }
  }

  void round(Vectors& weights) {
    std::vector<std::byte> code;
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      Floats difference = weights[rank];
      subtract_scaled(difference, settings_.codec.feedback ? publics_[rank] : last_[rank], 1);
      codecs_[rank]->encode(difference, code);
      codecs_[rank]->add_decoded(code, publics_[rank]);
      last_[rank] = weights[rank];
    }
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      const Neighbourhood& around = neighbours_[rank];
      for (std::size_t i = 0; i < around.hears().size(); ++i) {
        const auto weight = static_cast<float>(2 * settings_.step * around.weights()[i]);
        subtract_scaled(weights[rank], publics_[rank], weight);
        subtract_scaled(weights[rank], publics_[index(around.hears()[i])], -weight);
      }
    }
  }

 private:
  MixingSettings settings_;
  std::vector<std::unique_ptr<Codec>> codecs_;
  std::vector<Neighbourhood> neighbours_;
  Vectors publics_, last_;
};

TEST(CodedMeans, ArePlainMathsWithAndWithoutFeedback) {
  using Kind = CodecSettings::Kind;
  for (const Kind codec : {Kind::half, Kind::top_k, Kind::threshold, Kind::random, Kind::quantized,
                           Kind::hierarchical, Kind::sign, Kind::low_rank}) {
    for (bool feedback : {true, false}) {
      for (const char* graph : {"closed-ring", "mesh", "tree"}) {
        for (int size : {1, 2, 3, 5}) {
          MixingSettings settings = mixing_of("mean", graph, size);
          settings.codec.kind = codec;
          settings.codec.share = 0.1;
          settings.codec.threshold = 0.1;
          settings.codec.feedback = feedback;
          settings.step = 0.2;
          Mixers mixers(settings, 60);
          CodedMeanOracle oracle(settings, 60);
          Vectors expected = mixers.weights;
          for (std::uint64_t round = 0; round < 10; ++round) {
            mixers.mix(round);
            oracle.round(expected);
            ASSERT_EQ(mixers.weights, expected)
                << name_of(codec) << " feedback=" << feedback << " " << graph << " n=" << size;
          }
        }
      }
    }
  }
}

TEST(Updates, SendWhatACodeHasLeftOutLaterUnlessThereIsNoFeedback) {
  for (bool feedback : {true, false}) {
    MixingSettings settings = mixing_of("updates", "mesh", 2);
    settings.codec.kind = CodecSettings::Kind::top_k;
    settings.codec.share = 0.25;
    settings.codec.feedback = feedback;
    Mixers mixers(settings, 40);
    mixers.weights[1].assign(40, 0);
    const Floats changed = mixers.weights[0];
    for (int round = 0; round < 12; ++round) {  // nothing else changes
      mixers.attend_one(0);
      mixers.mix_one(0);
      mixers.attend_one(1);
    }
    const auto untold = std::ranges::count(mixers.weights[1], 0.0f);
    if (feedback) {
      EXPECT_LT(difference(mixers.weights[1], changed), 1e-3);
    } else {
      EXPECT_EQ(untold, 30);
    }
  }
}

}  // namespace
}  // namespace starling
