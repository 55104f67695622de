#include "codec/codec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/codec/coding.h"
#include "tests/counted_allocations.h"

namespace starling {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kModel = 21'840;  // elements of the small model most runs train

// Every codec, with few and with many elements sent where that can be set, with and without zstd.
std::vector<CodecSettings> all_settings() {
  std::vector<CodecSettings> plain = {{.kind = CodecSettings::Kind::raw},
                                      {.kind = CodecSettings::Kind::half},
                                      {.kind = CodecSettings::Kind::bfloat}};
  for (double share : {1e-6, 0.01, 0.4, 1.0})
    plain.push_back({.kind = CodecSettings::Kind::top_k, .share = share});
  for (double threshold : {1e-3, 0.7, 2.6, 100.0}) {
    plain.push_back({.kind = CodecSettings::Kind::threshold, .threshold = threshold});
  }
  plain.push_back({.kind = CodecSettings::Kind::threshold, .threshold = 0.5, .adaptive = true});
  for (bool feedback : {true, false}) {
    for (double share : {1e-6, 0.01, 0.4, 1.0}) {
      plain.push_back({.kind = CodecSettings::Kind::random, .share = share, .feedback = feedback});
    }
    for (int levels : {1, 5, 127}) {
      for (auto kind : {CodecSettings::Kind::quantized, CodecSettings::Kind::hierarchical}) {
        plain.push_back({.kind = kind, .levels = levels, .block = 100, .feedback = feedback});
      }
    }
  }
  plain.push_back({.kind = CodecSettings::Kind::quantized});
  plain.push_back({.kind = CodecSettings::Kind::hierarchical});
  for (int block : {8, 100, 128})
    plain.push_back({.kind = CodecSettings::Kind::sign, .block = block});
  for (int rank : {1, 3}) plain.push_back({.kind = CodecSettings::Kind::low_rank, .rank = rank});
  std::vector<CodecSettings> all = plain;
  for (CodecSettings settings : plain) {
    settings.entropy = true;
    all.push_back(settings);
  }
  return all;
}

// Bits without meaning: every sign, exponent and fraction, but finite.
std::vector<float> any_finite(std::size_t count, std::uint64_t seed) {
  Random random{seed, count};
  std::vector<float> values;
  while (values.size() < count) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

std::size_t nonzeros(const std::vector<float>& values) {
  return values.size() - static_cast<std::size_t>(std::ranges::count(values, 0.0f));
}

// Whether what was sent and what is left add up as the header says.
bool adds_up(const CodecSettings& settings, float value, float sent, float rest) {
  using enum CodecSettings::Kind;
  const float ulp = std::nextafter(std::abs(value), kInfinity) - std::abs(value);
  switch (settings.kind) {
    case raw:
    case bfloat:
    case top_k:
      return sent + rest == value;
    case half:
      return sent + rest == value ||
             (std::abs(value) >= 0x1p29f && std::abs(sent + rest - value) <= ulp);
    case threshold:
      return sent + rest == value || (std::abs(value) >= settings.threshold * 0x1p16 &&
                                      std::abs(sent + rest - value) <= ulp);
    case random:
    case quantized:
      if (settings.feedback) return sent + rest == value;
      break;
    case hierarchical:
    case sign:
    case low_rank:
      break;
  }
  const float larger = std::max(std::abs(value), std::abs(sent));
  const double both = static_cast<double>(sent) + static_cast<double>(rest);
  return std::abs(both - static_cast<double>(value)) <=
         static_cast<double>(larger) - static_cast<double>(std::nextafter(larger, 0.0f));
}

TEST(Codec, SendsAndLeavesTogetherExactlyWhatItWasGiven) {
  for (const CodecSettings& settings : all_settings()) {
    for (std::size_t elements : {0, 1, 2, 3, 17, 63, 64, 65, 1001, 21'840, 100'003}) {
      for (std::uint64_t seed : {1, 2, 3}) {
        const std::vector<float> values = normals(elements, seed);
        const Sent sent = send(settings, values);
        for (std::size_t i = 0; i < elements; ++i) {
          ASSERT_TRUE(adds_up(settings, values[i], sent.decoded[i], sent.rest[i]))
              << settings << ": " << values[i] << " became " << sent.decoded[i] << " and "
              << sent.rest[i];
        }
      }
    }
  }
}

// But for low-rank and random, whose sums are infinite then.
TEST(Codec, LosesAtMostTheLastBitOfHugeValues) {
  for (const CodecSettings& settings : all_settings()) {
    using enum CodecSettings::Kind;
    if (settings.kind == low_rank || settings.kind == random) continue;
    const std::vector<float> values = any_finite(10'007, 4);
    const Sent sent = send(settings, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(adds_up(settings, values[i], sent.decoded[i], sent.rest[i]))
          << settings << ": " << values[i] << " became " << sent.decoded[i] << " and "
          << sent.rest[i];
    }
  }
}

TEST(Codec, AddsToWhatIsThere) {
  for (const CodecSettings& settings : all_settings()) {
    const auto codec = make_codec(settings);
    const Sent sent = send(*codec, normals(1001, 5));
    std::vector<float> into(1001, 2);
    codec->add_decoded(sent.code, into);
    for (std::size_t i = 0; i < into.size(); ++i) ASSERT_EQ(into[i], 2 + sent.decoded[i]);
  }
}

TEST(Codec, ReplacesWhatWasInTheCode) {
  for (const CodecSettings& settings : all_settings()) {
    std::vector<float> values = normals(1001, 6), again = values;
    Code code(100'000, std::byte{0xff}), fresh;
    make_codec(settings)->encode(values, code);
    make_codec(settings)->encode(again, fresh);
    EXPECT_EQ(code, fresh) << settings;
  }
}

// The inputs are whole numbers, so that no sum is rounded, also not over all rounds, where what is
// sent is whole, or has few bits.
TEST(Codec, WithErrorFeedbackLosesNothingOverManyRounds) {
  for (CodecSettings settings : all_settings()) {
    if (!settings.feedback) continue;
    if (settings.kind == CodecSettings::Kind::threshold)
      settings.threshold = std::ceil(100 * settings.threshold);
    constexpr std::size_t kElements = 501;
    const auto codec = make_codec(settings);
    Random random{7};
    std::vector<float> given(kElements), received(kElements), rest(kElements);
    Code code;
    for (int round = 0; round < 200; ++round) {
      for (std::size_t i = 0; i < kElements; ++i) {
        const float value = static_cast<float>(random.below(2001)) - 1000;
        given[i] += value;
        rest[i] += value;
      }
      codec->encode(rest, code);
      codec->add_decoded(code, received);
    }
    EXPECT_GT(nonzeros(received), 0u) << settings;
    const bool rounds = settings.kind > CodecSettings::Kind::random;
    for (std::size_t i = 0; i < kElements; ++i) {
      ASSERT_NEAR(received[i] + rest[i], given[i], rounds ? 0.05 : 0) << settings << ": " << i;
    }
  }
}

TEST(Codec, WithErrorFeedbackSendsAlsoWhatIsSmallSoonerOrLater) {
  for (const CodecSettings& settings :
       {CodecSettings{.kind = CodecSettings::Kind::top_k, .share = 0.05},
        CodecSettings{.kind = CodecSettings::Kind::random, .share = 0.05},
        CodecSettings{.kind = CodecSettings::Kind::quantized, .levels = 1},
        CodecSettings{.kind = CodecSettings::Kind::hierarchical, .levels = 1},
        CodecSettings{.kind = CodecSettings::Kind::threshold, .threshold = 1}}) {
    const auto codec = make_codec(settings);
    std::vector<float> received(100), rest(100);
    Code code;
    for (int round = 0; round < 2000; ++round) {
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] += static_cast<float>(i + 1) / 100;
      codec->encode(rest, code);
      codec->add_decoded(code, received);
    }
    EXPECT_EQ(nonzeros(received), received.size()) << settings;
  }
}

TEST(Codec, SendsInfinityAndNanAsSuchOrRefusesThem) {
  for (const CodecSettings& settings : all_settings()) {
    for (float special : {kInfinity, -kInfinity, kNan, -kNan}) {
      std::vector<float> values(100, 1.0f);
      values[40] = special;
      const auto codec = make_codec(settings);
      using enum CodecSettings::Kind;
      if (settings.kind == threshold || settings.kind == random) {
        std::vector<float> same = values;
        Code code;
        EXPECT_THROW(codec->encode(same, code), Error);
        EXPECT_EQ(std::memcmp(same.data(), values.data(), 400), 0) << "changed what it refused";
        continue;
      }
      const Sent sent = send(*codec, values);
      const bool shares_a_norm = settings.kind > random;
      EXPECT_EQ(std::isnan(sent.decoded[40]), shares_a_norm || std::isnan(special)) << settings;
      EXPECT_TRUE(std::isnan(sent.decoded[40]) || sent.decoded[40] == special) << settings;
      EXPECT_EQ(sent.rest[40], 0) << settings;
      // And what comes after is sent as ever.
      const std::vector<float> after(100, 1.0f);
      const Sent next = send(*codec, after);
      for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(adds_up(settings, after[i], next.decoded[i], next.rest[i])) << settings;
      }
    }
  }
}

TEST(Codec, DoesNotAllocateOnceItHasSeenAVector) {
  for (const CodecSettings& settings : all_settings()) {
    const auto codec = make_codec(settings);
    std::vector<std::vector<float>> inputs;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      inputs.push_back(normals(5003, seed, static_cast<double>(seed + 1)));  // ever more to send
    }
    std::vector<float> into(5003);
    Code code;
    codec->encode(inputs[0], code);
    codec->add_decoded(code, into);
    const std::size_t before = allocations;
    for (std::vector<float>& input : inputs) {
      codec->encode(input, code);
      codec->add_decoded(code, into);
    }
    EXPECT_EQ(allocations, before) << settings;
  }
}

TEST(Codec, IsRefusedWithOneLineThatSaysWhatIsAllowed) {
  const auto message = [](const CodecSettings& settings) -> std::string {
    try {
      make_codec(settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (double share : {0.0, -0.5, 1.01, std::nan("")}) {
    EXPECT_NE(message({.kind = CodecSettings::Kind::top_k, .share = share})
                  .find("give one above 0 and up to 1"),
              std::string::npos);
  }
  for (double threshold : {0.0, -1.0, 1e-13, 1e300, std::nan("")}) {
    EXPECT_NE(message({.kind = CodecSettings::Kind::threshold, .threshold = threshold})
                  .find("give one from 1e-12 to 1e+12"),
              std::string::npos)
        << message({.kind = CodecSettings::Kind::threshold, .threshold = threshold});
  }
  for (int levels : {0, -1, 128}) {
    EXPECT_EQ(message({.kind = CodecSettings::Kind::quantized, .levels = levels}),
              fmt::format("a codec cannot have levels of {}; give it from 1 to 127", levels));
  }
  for (int block : {0, -1, 7, kLargestBlock + 1}) {
    EXPECT_EQ(message({.kind = CodecSettings::Kind::sign, .block = block}),
              fmt::format("a codec cannot have a block of {}; give it from 8 to 1048576", block));
  }
  for (int rank : {0, -1, 65}) {
    EXPECT_EQ(message({.kind = CodecSettings::Kind::low_rank, .rank = rank}),
              fmt::format("a codec cannot have a rank of {}; give it from 1 to 64", rank));
  }
  for (const CodecSettings& settings : all_settings()) EXPECT_EQ(message(settings), "");
}

// What a 16-bit float is worth, from its definition.
float worth(unsigned bits, int fraction_bits, int bias) {
  const unsigned exponent = (bits & 0x7fff) >> fraction_bits;
  const unsigned fraction = bits & ((1u << fraction_bits) - 1);
  const unsigned implicit = exponent > 0 ? 1u << fraction_bits : 0;
  const double magnitude = std::ldexp(
      implicit + fraction, static_cast<int>(std::max(exponent, 1u)) - bias - fraction_bits);
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}

void expect_rounds_to_nearest(const std::string& name, int fraction_bits, int bias,
                              unsigned infinity) {
  std::vector<float> given, expected;
  const auto expect = [&](float value, float rounded) {
    for (float sign : {1.0f, -1.0f}) {
      given.push_back(sign * value);
      expected.push_back(sign * rounded);
    }
  };
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const float low = worth(bits, fraction_bits, bias), high = worth(bits + 1, fraction_bits, bias);
    const float middle = low + (high - low) / 2;
    expect(low, low);
    expect(middle, bits % 2 == 0 ? low : high);
    if (std::nextafter(low, high) < middle) {  // else floats are no finer than that
      expect(std::nextafter(middle, low), low);
      expect(std::nextafter(middle, high), high);
    }
  }
  const float largest = worth(infinity - 1, fraction_bits, bias);
  expect(std::nextafter(largest, kInfinity), largest);
  expect(std::numeric_limits<float>::max(), largest);
  const Sent sent = send({.kind = named<CodecSettings::Kind>(name)}, given);
  EXPECT_EQ(sent.code.size(), 2 * given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    ASSERT_EQ(sent.decoded[i], expected[i]) << name << " of " << given[i];
    ASSERT_EQ(std::signbit(sent.decoded[i]), std::signbit(given[i]) && sent.decoded[i] != 0);
  }
}

TEST(Half, RoundsToTheNearestNumberAndSaturates) {
  expect_rounds_to_nearest("half", 10, 15, 0x7c00);
}

TEST(Bfloat, RoundsToTheNearestNumberAndSaturates) {
  expect_rounds_to_nearest("bfloat", 7, 127, 0x7f80);
}

// They are converted in blocks of 64; what is left behind the last one is sent like the rest.
TEST(Half, SendsEveryElementOfAnyLength) {
  for (const char* name : {"half", "bfloat"}) {
    for (std::size_t length : {1, 2, 63, 64, 65, 66, 127, 128, 129}) {
      const std::vector<float> values(length, 1.5f);
      const Sent sent = send({.kind = named<CodecSettings::Kind>(name)}, values);
      EXPECT_EQ(sent.decoded, values) << name << " of " << length;
      EXPECT_EQ(sent.rest, std::vector<float>(length)) << name << " of " << length;
    }
  }
}

TEST(TopK, SendsTheLargestAndAmongEqualsTheFirst) {
  Random random{8};
  for (double share : {0.001, 0.01, 0.1, 0.5, 0.77, 1.0}) {
    for (std::size_t elements : {1, 2, 99, 1000, 10'001}) {
      // Of few different values, so that there are many equals, or of all different ones.
      for (std::uint64_t different : {1, 2, 20, 1'000'000'000}) {
        std::vector<float> values(elements);
        for (float& value : values) {
          value = static_cast<float>(random.below(different) + 1) * (random.below(2) ? 1 : -1);
        }
        std::vector<std::size_t> order(elements);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, {},
                          [&](std::size_t i) { return std::pair(-std::abs(values[i]), i); });
        const auto k = std::max(1.0, std::round(share * static_cast<double>(elements)));
        std::vector<bool> expected(elements), found(elements);
        for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) expected[order[i]] = true;
        const Sent sent = send({.kind = CodecSettings::Kind::top_k, .share = share}, values);
        for (std::size_t i = 0; i < elements; ++i) found[i] = sent.decoded[i] != 0;
        ASSERT_EQ(found, expected) << share << " of " << elements;
      }
    }
  }
}

TEST(TopK, SendsNoZeros) {
  std::vector<float> values(1000);
  EXPECT_EQ(send({.kind = CodecSettings::Kind::top_k, .share = 0.5}, values).code.size(), 4u);
  values[3] = -0.0f;
  values[7] = std::numeric_limits<float>::denorm_min();
  values[500] = -2;
  const Sent sent = send({.kind = CodecSettings::Kind::top_k, .share = 0.5}, values);
  EXPECT_LT(sent.code.size(), 4u + 2 * 2 + 4);
  EXPECT_EQ(nonzeros(sent.decoded), 1u);  // the smallest rounds to zero, and remains
  EXPECT_EQ(sent.rest[7], values[7]);
  EXPECT_EQ(sent.decoded[500], -2);
}

TEST(TopK, OfOnePercentTakesThreeBytesAnElement) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Sent sent = send({.kind = CodecSettings::Kind::top_k}, normals(kModel, seed));
    EXPECT_EQ(nonzeros(sent.decoded), 218u);
    EXPECT_LE(sent.code.size(), 675u);
  }
  EXPECT_LE(make_codec({.kind = CodecSettings::Kind::top_k})->largest_code_bytes(kModel), 700u);
}

TEST(Threshold, SendsWhatReachesItAsPlusOrMinusTheThreshold) {
  const Sent sent = send({.kind = CodecSettings::Kind::threshold, .threshold = 0.5},
                         {0.25f, 0.5f, -0.5f, 3, -0.75f, std::nextafter(0.5f, 0.0f), -0.0f});
  EXPECT_EQ(sent.decoded, (std::vector<float>{0, 0.5f, -0.5f, 0.5f, -0.5f, 0, 0}));
  EXPECT_EQ(sent.rest,
            (std::vector<float>{0.25f, 0, 0, 2.5f, -0.25f, std::nextafter(0.5f, 0.0f), 0}));
}

// Six bytes, then a sign for every element sent, and the indices as a bitmap or sparse.
TEST(Threshold, TakesTheBitmapOrTheSparseFormWhicheverIsShorter) {
  constexpr double kBitmap = kModel / 8.0;
  for (const auto& [threshold, share] :
       {std::pair{0.0125, 0.99}, {0.674, 0.5}, {0.98, 0.327}, {1.645, 0.1}, {2.576, 0.01}}) {
    const Sent sent =
        send({.kind = CodecSettings::Kind::threshold, .threshold = threshold}, normals(kModel, 9));
    const auto count = static_cast<double>(nonzeros(sent.decoded));
    EXPECT_NEAR(count / kModel, share, 0.01);
    const double index_bytes = static_cast<double>(sent.code.size()) - 6 - count / 8;
    if (share > 0.4) {
      EXPECT_NEAR(index_bytes, kBitmap, 2) << threshold;
    } else {
      EXPECT_LT(index_bytes, 0.95 * kBitmap) << threshold;
    }
  }
}

TEST(Threshold, AdaptsUntilTheShareIsInItsRangeAndStaysThere) {
  for (double start : {1e-4, 1e-2, 1.0, 100.0}) {
    const auto codec =
        make_codec({.kind = CodecSettings::Kind::threshold, .threshold = start, .adaptive = true});
    std::vector<float> rest(kModel);
    for (std::uint64_t round = 0; round < 500; ++round) {
      const std::vector<float> input = normals(kModel, round, 0.01);
      for (std::size_t i = 0; i < kModel; ++i) rest[i] += input[i];
      const Sent sent = send(*codec, rest);
      rest = sent.rest;
      const double share = static_cast<double>(nonzeros(sent.decoded)) / kModel;
      if (round == 0) {
        EXPECT_TRUE(start < 0.1 ? share > 0.1 : share == 0) << start;
      } else if (round >= 400) {  // at the edge of the range a vector may lie a little outside
        EXPECT_TRUE(share >= 0.5e-4 && share <= 1.2e-2) << start << ": " << share;
      }
    }
  }
}

TEST(Threshold, ThatAdaptsSinksOnlyWhileThereIsSomethingToSend) {
  const CodecSettings settings{
      .kind = CodecSettings::Kind::threshold, .threshold = 1, .adaptive = true};
  const auto codec = make_codec(settings);
  for (int round = 0; round < 1000; ++round) send(*codec, std::vector<float>(100));
  EXPECT_EQ(send(*codec, {1.0f}).decoded, std::vector<float>{1.0f});

  const auto sinking = make_codec(settings);
  for (int round = 0; round < 1000; ++round) send(*sinking, std::vector<float>(100, 1e-20f));
  EXPECT_NEAR(send(*sinking, {1.0f}).decoded[0], kSmallestThreshold, 0.01 * kSmallestThreshold);

  const auto rising = make_codec(settings);
  for (int round = 0; round < 1000; ++round) send(*rising, std::vector<float>(100, 1e30f));
  EXPECT_NEAR(send(*rising, {1e30f}).decoded[0], kLargestThreshold, 0.01 * kLargestThreshold);

  const auto fixed = make_codec({.kind = CodecSettings::Kind::threshold, .threshold = 1});
  for (int round = 0; round < 10; ++round) send(*fixed, std::vector<float>(100, 2.0f));
  EXPECT_EQ(send(*fixed, {1.0f}).decoded, std::vector<float>{1.0f});
}

TEST(Entropy, ShrinksWhatRepeatsAndNeverAddsMoreThanAByte) {
  for (CodecSettings settings : all_settings()) {
    if (settings.entropy) continue;
    CodecSettings shrinking = settings;
    shrinking.entropy = true;
    for (std::size_t elements : {0, 1, 2, 100, 21'840}) {
      const std::vector<float> values = normals(elements, 10);
      EXPECT_LE(send(shrinking, values).code.size(), send(settings, values).code.size() + 1)
          << shrinking;
    }
    if (settings.kind == CodecSettings::Kind::raw || settings.kind == CodecSettings::Kind::half ||
        settings.kind == CodecSettings::Kind::bfloat) {
      const std::vector<float> same(kModel, 0.1f);
      EXPECT_LT(send(shrinking, same).code.size(), send(settings, same).code.size() / 20)
          << shrinking;
    }
  }
}

// What may come from a broken or hostile peer is refused, or is a code for so many elements. That
// nothing else is touched, the margins tell, and the sanitizers.
class HostileCodes : public testing::TestWithParam<CodecSettings> {
 protected:
  static constexpr std::size_t kElements = 300, kMargin = 64;

  void decode(ConstBytes code) {
    std::vector<float> memory(kElements + 2 * kMargin, 77);
    // A copy of its own, with nothing behind it that could be read unnoticed.
    const auto bytes = std::make_unique<std::byte[]>(code.size());
    std::ranges::copy(code, bytes.get());
    try {
      codec_->add_decoded({bytes.get(), code.size()},
                          std::span(memory).subspan(kMargin, kElements));
      ++accepted_;
    } catch (const Error&) {
      ++refused_;
    }
    for (std::size_t i = 0; i < kMargin; ++i) {
      ASSERT_EQ(memory[i], 77);
      ASSERT_EQ(memory[memory.size() - 1 - i], 77);
    }
  }

  Code valid(std::uint64_t seed) { return send(*codec_, normals(kElements, seed)).code; }

  std::unique_ptr<Codec> codec_ = make_codec(GetParam());
  int accepted_ = 0, refused_ = 0;
};

TEST_P(HostileCodes, OfRandomBytes) {
  Random random{11};
  for (int i = 0; i < 3000; ++i) {
    Code code(random.below(2) ? random.below(20) : random.below(2000));
    for (std::byte& byte : code) byte = static_cast<std::byte>(random.bits());
    // Small numbers where counts and tags are, to get further.
    if (random.below(2)) {
      const std::uint64_t start = GetParam().entropy ? 1 : 0;
      if (start && !code.empty()) code[0] = static_cast<std::byte>(random.below(2));
      const std::size_t count = start + (GetParam().kind == CodecSettings::Kind::threshold ? 2 : 0);
      for (std::size_t j = count + 1; j < std::min(count + 4, code.size()); ++j) code[j] = {};
    }
    decode(code);
  }
}

TEST_P(HostileCodes, CutAtEveryLengthOrTooLong) {
  Code code = valid(12);
  decode(code);
  ASSERT_EQ(accepted_, 1);
  for (std::size_t length = 0; length < code.size(); ++length)
    decode(ConstBytes(code).first(length));
  EXPECT_EQ(accepted_, 1);
  code.push_back({});
  decode(code);
  EXPECT_EQ(accepted_, 1);
  code.resize(100'000);
  decode(code);
  EXPECT_EQ(accepted_, 1);
}

TEST_P(HostileCodes, WithBitsFlipped) {
  Random random{13};
  for (int i = 0; i < 3000; ++i) {
    Code code = valid(14);
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      code[random.below(code.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    decode(code);
  }
}

TEST_P(HostileCodes, ForAnotherNumberOfElements) {
  for (std::size_t elements : {0, 1, 299, 301, 3000}) {
    const Code code = send(*codec_, normals(elements, 15)).code;
    decode(code);
  }
  if (GetParam().kind == CodecSettings::Kind::raw || GetParam().kind == CodecSettings::Kind::half ||
      GetParam().kind == CodecSettings::Kind::bfloat) {
    EXPECT_EQ(accepted_, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryCodec, HostileCodes, testing::ValuesIn(all_settings()));

template <class... Parts>
Code code_of(const Parts&... parts) {
  Code code;
  const auto append = [&](ConstBytes bytes) {
    code.insert(code.end(), bytes.begin(), bytes.end());
  };
  (append(std::as_bytes(std::span(&parts, 1))), ...);
  return code;
}

// Why a code for so many elements is refused. What is refused for the wrong reason may have been
// read beyond its end before.
std::string refusal(const Codec& codec, const Code& code, std::size_t elements) {
  try {
    decoded(codec, code, elements);
  } catch (const BadCode& error) {
    const std::string what = error.what();
    return what.substr(0, what.find(';'));
  }
  return "";
}

TEST(TopK, RefusesCodesThatEndBeforeTheirValues) {
  const auto codec = make_codec({.kind = CodecSettings::Kind::top_k, .share = 0.5});
  const std::uint16_t one = 0x3f80;
  for (std::size_t length : {0, 1, 2, 3}) {
    EXPECT_EQ(refusal(*codec, Code(length), 4), "a top-k code ends in its header") << length;
  }
  EXPECT_EQ(refusal(*codec, code_of(2u), 4), "4 bytes are no top-k code of 2 among 4 elements");
  EXPECT_EQ(refusal(*codec, code_of(2u, one), 4),
            "6 bytes are no top-k code of 2 among 4 elements");
  EXPECT_EQ(refusal(*codec, code_of(2u, one, std::uint8_t{1}), 4),
            "7 bytes are no top-k code of 2 among 4 elements");
  EXPECT_EQ(refusal(*codec, code_of(3u, one, one, one), 4),
            "10 bytes are no top-k code of 3 among 4 elements");
}

TEST(Threshold, RefusesCodesThatEndInTheirHeaderOrMeanTooMany) {
  const auto codec = make_codec({.kind = CodecSettings::Kind::threshold});
  const std::uint16_t one = 0x3f80;
  for (std::size_t length : {0, 1, 2, 3, 4, 5}) {
    EXPECT_EQ(refusal(*codec, Code(length), 2), "a threshold code ends in its header") << length;
  }
  EXPECT_EQ(refusal(*codec, code_of(one, 3u, std::uint8_t{0xff}), 2),
            "a code means 3 of 2 elements");
}

TEST(Entropy, RefusesAKindThatThereIsNot) {
  const CodecSettings settings{.kind = CodecSettings::Kind::raw, .entropy = true};
  const auto codec = make_codec(settings);
  const std::string neither = "a code says neither that it is stored nor that it is compressed";
  EXPECT_EQ(refusal(*codec, {}, 1), neither);
  for (const std::vector<float>& values : {std::vector<float>(1000), normals(10, 1)}) {
    Code code = send(settings, values).code;
    for (unsigned kind : {2u, 0x80u, 0xffu}) {
      code[0] = static_cast<std::byte>(kind);
      EXPECT_EQ(refusal(*codec, code, values.size()), neither) << kind;
    }
  }
}

TEST(TopK, RefusesCountsAndGapsThatAreTooLarge) {
  const auto codec = make_codec({.kind = CodecSettings::Kind::top_k, .share = 0.5});
  const std::uint16_t one = 0x3f80;
  const auto decode = [&](const Code& code) { return decoded(*codec, code, 4); };
  // 1 of 4: width 1, so a gap's lowest bit, then zeros, then a one.
  EXPECT_EQ(decode(code_of(1u, one, std::uint8_t{0b010})), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(decode(code_of(1u, one, std::uint8_t{0b101})), (std::vector<float>{0, 0, 0, 1}));
  EXPECT_THROW(decode(code_of(1u, one, std::uint8_t{0b1000})), BadCode);  // element 4
  EXPECT_THROW(decode(code_of(1u, one, std::uint8_t{0b1010})), BadCode);  // goes on
  EXPECT_THROW(decode(code_of(1u, one)), BadCode);
  EXPECT_THROW(decode(code_of(3u, one, one, one, std::uint8_t{0b111})), BadCode);  // above half
  for (std::uint32_t count : {5u, 0x7fffffffu, 0x80000001u, 0xffffffffu}) {
    EXPECT_THROW(decode(code_of(count, one, one, std::uint8_t{1})), BadCode);
  }
}

TEST(Threshold, RefusesCountsAndThresholdsThatMakeNoSense) {
  const auto codec = make_codec({.kind = CodecSettings::Kind::threshold});
  const auto decode = [&](const Code& code) { return decoded(*codec, code, 2); };
  const std::uint16_t one = 0x3f80;
  const std::uint8_t plus_minus = 0b1101;
  EXPECT_EQ(decode(code_of(one, 2u, plus_minus)), (std::vector<float>{1, -1}));
  for (std::uint32_t count : {0u, 1u, 3u, 0xffffffffu}) {
    EXPECT_THROW(decode(code_of(one, count, plus_minus)), BadCode) << count;
  }
  for (unsigned threshold : {0x0000u, 0x8000u, 0xbf80u, 0x7f80u, 0xff80u, 0x7fc0u}) {
    EXPECT_THROW(decode(code_of(static_cast<std::uint16_t>(threshold), 2u, plus_minus)), BadCode);
  }
}

TEST(Entropy, DoesNotInflateAFrameBeyondTheLargestCode) {
  const CodecSettings settings{.kind = CodecSettings::Kind::raw, .entropy = true};
  const auto codec = make_codec(settings);
  for (std::size_t elements : {1001, 10'000'000}) {
    const Sent bomb = send(settings, std::vector<float>(elements));
    ASSERT_LT(bomb.code.size(), 10'000u);
    try {
      decoded(*codec, bomb.code, 1000);
      FAIL() << elements;
    } catch (const BadCode& error) {  // by zstd, not by the codec that would get it
      EXPECT_NE(std::string(error.what()).find("cannot be decompressed"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace starling
