// What the papers promise: codes without feedback are right on average and vary no more than proved,
// codes with feedback contract.
#include <cstring>
#include <limits>

#include "tests/codec/coding.h"

namespace starling {
namespace {

using Kind = CodecSettings::Kind;

std::vector<CodecSettings> drawing() {
  std::vector<CodecSettings> all;
  for (double share : {0.01, 0.1, 0.5}) all.push_back({.kind = Kind::random, .share = share});
  for (Kind kind : {Kind::quantized, Kind::hierarchical}) {
    for (int levels : {1, 2, 7, 100}) {
      for (int block : {32, 100, 128}) {
        all.push_back({.kind = kind, .levels = levels, .block = block});
      }
    }
  }
  for (CodecSettings& settings : all) settings.feedback = false;
  return all;
}

struct Moments {
  std::vector<double> mean, variance;  // of each element, over the draws
  double squared_length = 0;           // mean of it
  double kept = 0;                     // mean number of elements that are not zero
};

Moments moments(const CodecSettings& settings, const std::vector<float>& values, int draws) {
  const auto codec = make_codec(settings, {.seed = 5});
  Moments all{std::vector<double>(values.size()), std::vector<double>(values.size())};
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<float> sent = send(*codec, values).decoded;
    all.squared_length += squared_length(sent) / draws;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(sent[i]);
      all.mean[i] += value / draws;
      all.variance[i] += value * value / draws;
      all.kept += (value != 0 ? 1.0 : 0.0) / draws;
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    all.variance[i] = std::max(0.0, all.variance[i] - all.mean[i] * all.mean[i]);
  }
  return all;
}

// An element that is drawn rarely may be drawn never, or some times more: so much beside its five
// standard errors. The sum over all, each with its sign, may not be off.
TEST(WithoutFeedback, WhatIsDrawnIsRightOnAverage) {
  constexpr int kDraws = 4000;
  const std::vector<float> values = heavy_tailed(300, 1);
  double largest = 0, sum = 0;
  for (const float value : values) {
    largest = std::max(largest, static_cast<double>(std::abs(value)));
    sum += static_cast<double>(std::abs(value));
  }
  for (const CodecSettings& settings : drawing()) {
    const double unit =
        settings.kind == Kind::random ? sum / (300 * settings.share) : largest / settings.levels;
    const Moments drawn = moments(settings, values, kDraws);
    double off = 0, variance = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      ASSERT_NEAR(
          drawn.mean[i], value,
          5 * std::sqrt(drawn.variance[i] / kDraws) + 6 * unit / kDraws + 1e-6 * std::abs(value))
          << settings << ": " << i;
      off += (drawn.mean[i] - value) * (value < 0 ? -1 : 1);
      variance += drawn.variance[i];
    }
    EXPECT_NEAR(off, 0, 4.5 * std::sqrt(variance / kDraws) + 1e-8) << settings;
  }
}

// Alistarh et al., lemma 3.1: E|Q(v)|^2 <= (1 + min(n / s^2, sqrt(n) / s)) |v|^2 for a block of n.
TEST(Quantized, VariesNoMoreThanQsgdDoes) {
  for (std::size_t elements : {32, 128, 1000}) {
    for (int levels : {1, 2, 7, 100}) {
      for (const std::vector<float>& values :
           {heavy_tailed(elements, 2), normals(elements, 3), std::vector<float>(elements, 0.3f)}) {
        const CodecSettings settings{.kind = Kind::quantized,
                                     .levels = levels,
                                     .block = static_cast<int>(elements),
                                     .feedback = false};
        const double n = static_cast<double>(elements), s = levels;
        const double bound = 1 + std::min(n / (s * s), std::sqrt(n) / s);
        // The step is rounded up by at most 2^-7.
        EXPECT_LE(moments(settings, values, 500).squared_length,
                  1.01 * bound * squared_length(values))
            << settings;
      }
    }
  }
}

// Wangni et al.: p_j = min(1, |v_j| / t) with a sum of what is wanted, and E|Q(v)|^2 = sum v_j^2 / p_j.
TEST(Random, KeepsAsManyAsWantedAndVariesAsProved) {
  constexpr std::size_t kElements = 2000;
  for (double share : {0.01, 0.1, 0.5}) {
    for (const std::vector<float>& values : {heavy_tailed(kElements, 4), normals(kElements, 5)}) {
      const double wanted = share * kElements;
      double low = 0, high = 1e9;  // of t, by halving
      const auto expected = [&](double t) {
        double sum = 0;
        for (float value : values) sum += std::min(1.0, std::abs(static_cast<double>(value)) / t);
        return sum;
      };
      for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        (expected(middle) > wanted ? low : high) = middle;
      }
      double squares = 0;
      for (float value : values) {
        const auto v = static_cast<double>(value);
        if (v != 0) squares += v * v / std::min(1.0, std::abs(v) / high);
      }
      for (bool feedback : {true, false}) {
        const CodecSettings settings{.kind = Kind::random, .share = share, .feedback = feedback};
        const Moments drawn = moments(settings, values, 1000);
        // t is up to 1 % too large: rounded up, and from above.
        EXPECT_LE(drawn.kept, wanted + 4 * std::sqrt(wanted / 1000)) << settings;
        EXPECT_GE(drawn.kept, 0.985 * wanted - 4 * std::sqrt(wanted / 1000)) << settings;
        if (!feedback) {
          EXPECT_NEAR(drawn.squared_length, squares, 0.02 * squares) << settings;
        }
      }
    }
  }
}

// It would keep more than it may, however often it draws.
TEST(Random, RefusesWhatAddsUpToInfinity) {
  std::vector<float> values(100, 3e38f);
  const std::vector<float> same = values;
  Code code;
  for (bool feedback : {true, false}) {
    const auto codec = make_codec({.kind = Kind::random, .feedback = feedback});
    EXPECT_THROW(codec->encode(values, code), Error);
    EXPECT_EQ(values, same);
  }
}

TEST(Random, WithFeedbackSendsWhatItKeepsAsItIs) {
  const std::vector<float> values = heavy_tailed(1000, 6);
  const std::vector<float> sent = send({.kind = Kind::random, .share = 0.1}, values).decoded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(sent[i] == 0 || std::abs(sent[i] - values[i]) <= 0.004f * std::abs(values[i]));
  }
}

// The delta that the header promises, of a vector or of its blocks.
double least_delta(const CodecSettings& settings, const std::vector<float>& values) {
  const double length = std::min<double>(settings.block, static_cast<double>(values.size()));
  switch (settings.kind) {
    case Kind::raw:
      return 1;
    case Kind::half:
    case Kind::bfloat:
      return 1 - 0x1p-16;
    case Kind::top_k:
      return 0.99 * settings.share;  // what is sent is rounded
    case Kind::quantized:
    case Kind::hierarchical:
    case Kind::sign:
      return 0.9 / length;
    default:
      return 0;
  }
}

TEST(WithFeedback, EveryCodeContracts) {
  std::vector<CodecSettings> all = drawing();
  for (CodecSettings& settings : all) settings.feedback = true;
  for (Kind kind : {Kind::raw, Kind::half, Kind::bfloat}) all.push_back({.kind = kind});
  for (double share : {0.01, 0.5}) all.push_back({.kind = Kind::top_k, .share = share});
  for (int block : {8, 100, 1024}) all.push_back({.kind = Kind::sign, .block = block});
  for (int rank : {1, 4}) all.push_back({.kind = Kind::low_rank, .rank = rank});
  for (const CodecSettings& settings : all) {
    std::vector<std::vector<float>> vectors;
    for (std::uint64_t seed : {1, 2, 3}) {
      vectors.push_back(heavy_tailed(1000, seed));
      vectors.push_back(normals(1000, seed));
      vectors.push_back(normals(77, seed));
    }
    vectors.emplace_back(1000, 1.0f);
    vectors.emplace_back(1000, 0.0f);
    vectors.push_back({3.0f});
    vectors.emplace_back(1000, 0.49f);  // that rounds to zero, but for one of a whole step
    vectors.back()[500] = 1;
    for (const std::vector<float>& values : vectors) {
      const Sent sent = send(settings, values);
      const double before = squared_length(values), after = squared_length(sent.rest);
      ASSERT_LE(after, (1 - least_delta(settings, values)) * before * (1 + 1e-6)) << settings;
    }
  }
}

// On average delta is the share, as what is larger is kept rather.
TEST(WithFeedback, RandomContractsByItsShareOnAverage) {
  for (double share : {0.01, 0.1, 0.5}) {
    const std::vector<float> values = normals(1000, 7);
    const auto codec = make_codec({.kind = Kind::random, .share = share});
    double after = 0;
    for (int draw = 0; draw < 500; ++draw) after += squared_length(send(*codec, values).rest) / 500;
    EXPECT_LT(after, (1 - share) * squared_length(values));
  }
}

// Nobody knows what was drawn but by the seed, and two calls do not draw alike.
TEST(Draws, AreTheSameForASeedAndDifferOtherwise) {
  const std::vector<float> values = heavy_tailed(1000, 8);
  for (const CodecSettings& settings : drawing()) {
    const auto one = make_codec(settings, {.seed = 1}), same = make_codec(settings, {.seed = 1}),
               other = make_codec(settings, {.seed = 2});
    const Code first = send(*one, values).code, second = send(*one, values).code;
    EXPECT_EQ(first, send(*same, values).code) << settings;
    EXPECT_EQ(second, send(*same, values).code) << settings;
    EXPECT_NE(first, second) << settings;
    EXPECT_NE(first, send(*other, values).code) << settings;
  }
}

TEST(WithFeedback, LevelsAreNotDrawn) {
  const std::vector<float> values = heavy_tailed(1000, 8);
  for (CodecSettings settings : drawing()) {
    if (settings.kind == Kind::random) continue;
    settings.feedback = true;
    const auto codec = make_codec(settings);
    EXPECT_EQ(send(*codec, values).code, send(*codec, values).code) << settings;
  }
}

// What is left of a block has no part in the direction that was sent, but for a hinge's rounding.
TEST(Hierarchical, WithFeedbackSendsABlocksProjection) {
  for (int levels : {1, 3, 7}) {
    const CodecSettings settings{.kind = Kind::hierarchical, .levels = levels, .block = 256};
    const Sent sent = send(settings, normals(256, 11));
    double product = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      product += static_cast<double>(sent.decoded[i]) * static_cast<double>(sent.rest[i]);
    }
    EXPECT_LT(std::abs(product), 0.07 * squared_length(sent.decoded)) << levels;
  }
}

TEST(Draws, DifferFromBlockToBlock) {
  for (Kind kind : {Kind::quantized, Kind::hierarchical}) {
    std::vector<float> values = normals(64, 9);
    values.insert(values.end(), values.begin(), values.begin() + 64);
    const std::vector<float> sent =
        send({.kind = kind, .block = 64, .feedback = false}, values).decoded;
    EXPECT_FALSE(std::equal(sent.begin(), sent.begin() + 64, sent.begin() + 64));
  }
}

TEST(Quantized, SendsTheLargestFloatAsAFiniteOne) {
  const float largest = std::numeric_limits<float>::max();
  for (int levels : {1, 2, 7}) {
    const std::vector<float> values = {largest, 0, -largest};
    const Sent sent = send({.kind = Kind::quantized, .levels = levels}, values);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(sent.decoded[i] / largest, values[i] / largest, 0.3) << levels;
      EXPECT_EQ(sent.decoded[i] + sent.rest[i], values[i]) << levels;
    }
  }
}

TEST(Quantized, SendsLevelsOfTheLargestMagnitude) {
  const Sent sent =
      send({.kind = Kind::quantized, .levels = 4}, {4, -1, 0.4f, 0.6f, -2.4f, 0, -0.0f, -3.6f});
  EXPECT_EQ(sent.decoded, (std::vector<float>{4, -1, 0, 1, -2, 0, 0, -4}));
  EXPECT_EQ(sent.code.size(), 2u + 4u);  // a step, and four bits each
}

TEST(Quantized, TakesAsManyBitsAsItsLevelsNeed) {
  for (const auto& [levels, bits] :
       {std::pair{1, 2u}, {2, 3u}, {3, 3u}, {4, 4u}, {7, 4u}, {8, 5u}, {63, 7u}, {127, 8u}}) {
    const CodecSettings settings{.kind = Kind::quantized, .levels = levels};
    EXPECT_EQ(send(settings, normals(1280, 9)).code.size(), 10 * 2 + bits * 1280 / 8) << levels;
    EXPECT_EQ(send(settings, normals(1, 9)).code.size(), 2 + bits) << levels;
  }
}

TEST(Quantized, RefusesLevelsThatItDoesNotHave) {
  const CodecSettings settings{.kind = Kind::quantized, .levels = 5};
  const auto codec = make_codec(settings);
  Code code = send(settings, {5, 4, 3}).code;  // a step, three planes of magnitudes, one of signs
  ASSERT_EQ(code.size(), 6u);
  EXPECT_EQ(decoded(*codec, code, 3), (std::vector<float>{5, 4, 3}));
  code[3] |= std::byte{0b001};  // seven
  EXPECT_THROW(decoded(*codec, code, 3), BadCode);
  code[3] ^= std::byte{0b001};
  code[2] |= std::byte{0b1000};  // a fourth element
  EXPECT_THROW(decoded(*codec, code, 3), BadCode);
}

TEST(Sign, MeansTheMeanOfTheMagnitudes) {
  const Sent sent = send({.kind = Kind::sign, .block = 8}, {1, -3, 2, -2, 0, 4, -4, 0, 5, -7});
  EXPECT_EQ(sent.decoded, (std::vector<float>{2, -2, 2, -2, 2, 2, -2, 2, 6, -6}));
  EXPECT_EQ(sent.rest, (std::vector<float>{-1, -1, 0, 0, -2, 2, -2, -2, -1, -1}));
  EXPECT_EQ(sent.code.size(), 2u * (2 + 1));
  Code code = sent.code;
  code.back() |= std::byte{0x80};  // behind the last
  EXPECT_THROW(decoded(*make_codec({.kind = Kind::sign, .block = 8}), code, 10), BadCode);
}

// Blocks of very different lengths, as layers have.
TEST(Hierarchical, SendsShortAndLongBlocksAlikeWell) {
  for (bool feedback : {true, false}) {
    const CodecSettings settings{
        .kind = Kind::hierarchical, .levels = 100, .block = 64, .feedback = feedback};
    std::vector<float> values = normals(64 * 8, 10);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= static_cast<float>(std::pow(10.0, -static_cast<double>(i / 64)));
    }
    const Sent sent = send(settings, values);
    for (std::size_t begin = 0; begin < values.size(); begin += 64) {
      const auto block = [&](const std::vector<float>& all) {
        return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                  all.begin() + static_cast<std::ptrdiff_t>(begin) + 64);
      };
      const double limit = feedback ? 0.07 : 0.14;  // a hinge has three bits of fraction
      EXPECT_LT(squared_length(block(sent.rest)), limit * limit * squared_length(block(values)))
          << begin;
    }
    EXPECT_EQ(sent.code.size(), 8 + 8 + values.size());
  }
}

TEST(Hierarchical, RefusesNormsHingesAndLevelsThatItDoesNotHave) {
  const CodecSettings settings{.kind = Kind::hierarchical, .levels = 5};
  const auto codec = make_codec(settings);
  const Code good = send(settings, {5, 4, 3}).code;  // a norm, a hinge, four planes
  ASSERT_EQ(good.size(), 13u);
  EXPECT_NEAR(decoded(*codec, good, 3)[0], 5, 0.01);
  for (double norm : {-1.0, std::nan(""), HUGE_VAL}) {
    Code code = good;
    std::memcpy(code.data(), &norm, sizeof norm);
    EXPECT_THROW(decoded(*codec, code, 3), BadCode) << norm;
  }
  Code code = good;
  code[8] = std::byte{249};
  EXPECT_THROW(decoded(*codec, code, 3), BadCode);
  code[8] = std::byte{255};
  EXPECT_TRUE(std::isnan(decoded(*codec, code, 3)[1]));
  code = good;
  code[10] |= std::byte{0b001};
  EXPECT_THROW(decoded(*codec, code, 3), BadCode);
}

}  // namespace
}  // namespace starling
