// The coded mean against the plain maths of one thread.
#include "exchange/coded_allreduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "math/vector_math.h"
#include "sim/cluster.h"
#include "tests/exchange/coded_oracle.h"
#include "tests/exchange/vectors.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

using Kind = CodecSettings::Kind;

struct Case {
  const char* name;
  CodecSettings settings;
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"half", {.kind = Kind::half}},
      {"bfloat", {.kind = Kind::bfloat}},
      {"threshold", {.kind = Kind::threshold, .threshold = 0.2}},
      {"adaptive threshold", {.kind = Kind::threshold, .threshold = 0.2, .adaptive = true}},
      {"top-k", {.kind = Kind::top_k, .share = 0.1}},
      {"top-k and zstd", {.kind = Kind::top_k, .share = 0.1, .entropy = true}},
      {"random", {.kind = Kind::random, .share = 0.1}},
      {"quantized", {.kind = Kind::quantized, .levels = 7}},
      {"three levels and zstd",
       {.kind = Kind::quantized, .levels = 1, .block = 32, .entropy = true}},
      {"hierarchical", {.kind = Kind::hierarchical, .levels = 7}},
      {"sign", {.kind = Kind::sign, .block = 64}},
      {"low-rank", {.kind = Kind::low_rank, .rank = 2}},
  };
  const std::size_t with_feedback = all.size();
  for (std::size_t i = 0; i < with_feedback; ++i) {
    all.push_back(all[i]);
    all.back().settings.feedback = false;
  }
  return all;
}

// Rounds of exchanges in one world.
struct Ranks {
  Ranks(int size, std::size_t elements, const CodecSettings& settings,
        const std::vector<Fold>& folds = {})
      : world(size) {
    for (const std::size_t rank : world.known()) {
      exchanges.try_emplace(rank, world.comm(rank), settings, elements, CodecStream{kSeed, folds});
    }
  }
  // What each known rank has of it.
  Vectors mean(Vectors values) {
    world.run([&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return exchanges.at(rank).mean({1, Purpose::gradients}, values[rank]);
    });
    Vectors means;
    for (const std::size_t rank : world.known()) means.push_back(values[rank]);
    return means;
  }

  static constexpr std::uint64_t kSeed = 7;
  World world;
  std::map<std::size_t, CodedAllreduce> exchanges;
};

constexpr int kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 13};

TEST(CodedAllreduce, IsThePlainMathsToTheBitOnEveryRankAndSendsThoseBytes) {
  for (const Case& each : cases()) {
    for (int size : kSizes) {
      for (std::size_t elements : {0u, 1u, 2u, 7u, 64u, 1001u, 30'011u}) {
        if ((elements > 10'000 && size > 3) || !World::can_have(size)) continue;
        Ranks ranks(size, elements, each.settings);
        CodedOracle oracle(size, elements, each.settings, Ranks::kSeed);
        for (std::uint64_t round = 0; round < 4; ++round) {
          const Vectors values = random_vectors(size, elements, round);
          const std::vector<float> expected = oracle.mean(values);
          for (const std::vector<float>& vector : ranks.mean(values)) {
            ASSERT_EQ(vector, expected)
                << each.name << " feedback=" << each.settings.feedback << " n=" << size
                << " length=" << elements << " round=" << round;
          }
        }
        for (const std::size_t rank : ranks.world.known()) {
          ASSERT_EQ(ranks.world.bytes_sent(rank), oracle.sent[rank])
              << each.name << " n=" << size << " length=" << elements << " rank=" << rank;
        }
      }
    }
  }
}

// With feedback nothing is lost: what was applied and what is still kept back is all there was.
TEST(CodedAllreduce, OwesNoMoreThanItsResiduals) {
  constexpr std::size_t kElements = 301;
  for (const Case& each : cases()) {
    if (!each.settings.feedback) continue;
    for (int size : {2, 3, 5}) {
      if (!World::can_have(size)) continue;
      Ranks ranks(size, kElements, each.settings);
      CodedOracle oracle(size, kElements, each.settings, Ranks::kSeed);
      std::vector<double> applied(kElements), wanted(kElements);
      for (std::uint64_t round = 0; round < 40; ++round) {
        const Vectors values = random_vectors(size, kElements, round);
        for (std::size_t i = 0; i < kElements; ++i) {
          for (const auto& vector : values) {
            wanted[i] += static_cast<double>(vector[i]) / static_cast<double>(size);
          }
        }
        oracle.mean(values);
        const std::vector<float> mean = ranks.mean(values)[0];
        for (std::size_t i = 0; i < kElements; ++i) applied[i] += static_cast<double>(mean[i]);
      }
      const std::vector<double> left = oracle.residual(kElements);
      for (std::size_t i = 0; i < kElements; ++i) {
        ASSERT_NEAR(applied[i] + left[i], wanted[i], 1e-4) << each.name << " n=" << size;
      }
    }
  }
}

TEST(CodedAllreduce, ComesCloserToTheMeanOverTimeWithFeedbackThanWithout) {
  constexpr std::size_t kElements = 200;
  if (!World::can_have(5)) return;
  const auto error_after = [&](bool feedback) {
    Ranks ranks(5, kElements, {.kind = Kind::top_k, .share = 0.05, .feedback = feedback});
    const Vectors values = random_vectors(5, kElements, 1);  // the same in every round
    std::vector<float> sum(kElements), applied(kElements);
    for (const auto& vector : values) add(sum, vector);
    scale(sum, 100.0f / 5);
    for (int round = 0; round < 100; ++round) add(applied, ranks.mean(values)[0]);
    return squared_distance(sum, applied) / squared_distance(sum, std::vector<float>(kElements));
  };
  EXPECT_LT(error_after(true), 0.25);
  EXPECT_GT(error_after(false), 0.5);
}

TEST(CodedAllreduce, GoesTheWayThatSendsLess) {
  EXPECT_FALSE(goes_through_owners(Kind::top_k, 2));
  EXPECT_TRUE(goes_through_owners(Kind::top_k, 3));
  EXPECT_FALSE(goes_through_owners(Kind::threshold, 8));
  EXPECT_EQ(codes_sent(Kind::half, 1), 0);
  EXPECT_EQ(codes_sent(Kind::half, 2), 1);
  EXPECT_EQ(codes_sent(Kind::half, 8), 2 * 7 / 8.0);
  EXPECT_EQ(codes_sent(Kind::threshold, 8), 7);
  for (int size : {2, 4, 8}) {  // halves have no more than two bytes an element
    if (!World::can_have(size)) continue;
    Ranks ranks(size, 4096, {.kind = Kind::half});
    ranks.mean(random_vectors(size, 4096, 1));
    for (const std::uint64_t sent : ranks.world.bytes_sent()) {
      EXPECT_EQ(static_cast<double>(sent), codes_sent(Kind::half, size) * 4096 * 2);
    }
  }
}

TEST(CodedAllreduce, RunsSideBySideOnChannelsOfItsOwn) {
  const CodecSettings settings{.kind = Kind::top_k, .share = 0.1};
  struct Both {
    static Task<> run(CodedAllreduce& a, std::span<float> x, CodedAllreduce& b,
                      std::span<float> y) {
      Running running(b.mean({2, Purpose::gradients}, y));
      co_await a.mean({1, Purpose::gradients}, x);
      co_await running;
    }
  };
  for (int size : kSizes) {
    if (!World::can_have(size)) continue;
    Vectors first = random_vectors(size, 1000, 4), second = random_vectors(size, 77, 5);
    const Vectors first_once = Ranks(size, 1000, settings).mean(first);
    const Vectors second_once = Ranks(size, 77, settings).mean(second);
    Ranks one(size, 1000, settings);
    std::map<std::size_t, CodedAllreduce> other;
    for (const std::size_t rank : one.world.known()) {
      other.try_emplace(rank, one.world.comm(rank), settings, 77, CodecStream{Ranks::kSeed});
    }
    one.world.run([&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      return Both::run(one.exchanges.at(rank), first[rank], other.at(rank), second[rank]);
    });
    for (std::size_t i = 0; i < first_once.size(); ++i) {
      const std::size_t rank = one.world.known()[i];
      EXPECT_EQ(first[rank], first_once[i]) << size;
      EXPECT_EQ(second[rank], second_once[i]) << size;
    }
  }
}

// A rank that sends more than any code can be.
TEST(SimulatedCodedAllreduce, RefusesACodeThatIsTooLong) {
  for (int size : {2, 3}) {
    Cluster cluster(size);
    std::vector<CodedAllreduce> exchanges;
    for (int rank = 0; rank < size; ++rank) {
      exchanges.emplace_back(cluster.comm(rank), CodecSettings{.kind = Kind::half}, 90,
                             CodecStream{Ranks::kSeed});
    }
    Vectors values = random_vectors(size, 90, 1);
    struct Liar {
      static Task<> lie(Comm& comm, const std::vector<std::byte>& code) {
        auto lies = comm.send(1, {1, Purpose::gradients}, ConstBytes(code));
        co_await lies;
      }
    };
    const std::vector<std::byte> code(181);
    const auto errors = cluster.try_run([&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      if (rank == 0) return Liar::lie(comm, code);
      return exchanges[rank].mean({1, Purpose::gradients}, values[rank]);
    });
    EXPECT_TRUE(errors[1]);
  }
}

TEST(CodedAllreduce, SendsMatricesAsMatricesWhoeverOwnsThem) {
  const std::vector<Fold> folds = {{0, 10, 10}, {105, 20, 30}, {720, 5, 6}};
  const CodecSettings settings{.kind = Kind::low_rank, .rank = 2};
  for (int size : {2, 3, 5}) {
    if (!World::can_have(size)) continue;
    Ranks ranks(size, 755, settings, folds);
    CodedOracle oracle(size, 755, settings, Ranks::kSeed, folds);
    for (std::uint64_t round = 0; round < 4; ++round) {
      const Vectors values = random_vectors(size, 755, round);
      const std::vector<float> expected = oracle.mean(values);
      for (const std::vector<float>& vector : ranks.mean(values)) ASSERT_EQ(vector, expected);
    }
    // Two columns each way for every matrix, and what lies between them raw.
    const std::size_t code = 2 * (10 + 10) + 2 * (20 + 30) + 2 * (5 + 6) + (5 + 15 + 5);
    std::uint64_t sent = 0;
    for (const std::uint64_t each : ranks.world.bytes_sent()) sent += each;
    const double codes = codes_sent(Kind::low_rank, size) * size * 4;  // in four rounds
    EXPECT_EQ(static_cast<double>(sent), codes * static_cast<double>(code * sizeof(float)));
  }
}

TEST(CodedAllreduce, CutsBetweenMatrices) {
  const std::vector<Fold> folds = {{0, 10, 10}, {105, 20, 30}, {720, 5, 6}};
  for (int size : {1, 2, 3, 5, 8}) {
    const std::vector<Range> parts = owned_parts(755, size, folds);
    std::size_t at = 0, inside = 0;
    for (const Range& part : parts) {
      EXPECT_EQ(part.begin, at);
      at = part.end;
      for (const Fold& fold : folds_in(folds, part)) inside += fold.rows > 1;
    }
    EXPECT_EQ(at, 755u);
    EXPECT_EQ(inside, folds.size()) << size;
  }
  EXPECT_EQ(owned_parts(10, 3, {})[0], (Range{0, 4}));
  const std::vector<Fold> none = folds_in(folds, {100, 105});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].rows, 1u);
  EXPECT_EQ(none[0].columns, 5u);
  EXPECT_TRUE(folds_in({}, {100, 105}).empty());
  EXPECT_TRUE(folds_in(folds, {105, 105}).empty());
  const std::vector<Fold> inner = folds_in(folds, {100, 755});
  ASSERT_EQ(inner.size(), 2u);
  EXPECT_EQ(inner[0].begin, 5u);
  EXPECT_EQ(inner[1].begin, 620u);
  EXPECT_EQ(inner[1].rows, 5u);
}

}  // namespace
}  // namespace starling
