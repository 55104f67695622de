#include "exchange/allreduce.h"

#include "base/random.h"
#include "tests/exchange/coded_oracle.h"
#include "tests/strategy/workers.h"

namespace starling {
namespace {

Settings with_exchange(std::string_view exchange, int workers) {
  Settings settings = settings_for("allreduce", workers);
  settings.exchange = exchange;
  return settings;
}

TEST(AllreduceStrategy, GivesTheMeanGradientToAllWithTheSameBits) {
  for (const NamedAllreduce& exchange : kAllreduces) {
    for (int size : kWorkerCounts) {
      Workers workers(with_exchange(exchange.name, size), 40, 37);
      const std::vector<double> mean = mean_of(workers.gradients);
      workers.after_backward();
      for (std::size_t i = 0; i < mean.size(); ++i) {
        EXPECT_NEAR(workers.gradients[0][i], mean[i], 1e-6) << exchange.name << " n=" << size;
      }
      for (const Floats& gradients : workers.gradients) {
        EXPECT_EQ(gradients, workers.gradients[0]) << exchange.name << " n=" << size;
      }
    }
  }
}

TEST(AllreduceStrategy, KeepsBucketsApartThatAreExchangedAtTheSameTime) {
  for (const NamedAllreduce& exchange : kAllreduces) {
    for (int size : kWorkerCounts) {
      Workers workers(with_exchange(exchange.name, size), 40, 37);
      for (int step = 0; step < 3; ++step) {
        workers.gradients = random_vectors(size, 37, static_cast<std::uint64_t>(step));
        const std::vector<double> mean = mean_of(workers.gradients);
        workers.after_backward(5);
        for (const Floats& gradients : workers.gradients) {
          for (std::size_t i = 0; i < mean.size(); ++i) {
            EXPECT_NEAR(gradients[i], mean[i], 1e-6) << exchange.name << " n=" << size;
          }
        }
      }
    }
  }
}

TEST(AllreduceStrategy, UsesTheExchangeThatIsSet) {
  // At 8 workers each has bytes of its own: naive 7 + 7, ring 2 * 7 / 8 for each, doubling 3 each.
  const auto vectors_sent = [](std::string_view exchange) {
    Workers workers(with_exchange(exchange, 8), 64, 64);
    workers.after_backward();
    return static_cast<double>(workers.sent_bytes(Purpose::gradients)) / (4 * 64);
  };
  EXPECT_EQ(vectors_sent("naive"), 14);
  EXPECT_EQ(vectors_sent("ring"), 14);
  EXPECT_EQ(vectors_sent("doubling"), 24);
  Workers ring(with_exchange("ring", 8), 64, 64), naive(with_exchange("naive", 8), 64, 64);
  ring.after_backward();
  naive.after_backward();
  EXPECT_EQ(ring.sent_bytes(0, Purpose::gradients), 4 * 64 * 14 / 8u);
  EXPECT_EQ(naive.sent_bytes(0, Purpose::gradients), 4 * 64 * 7u);
}

Settings with_codec(CodecSettings::Kind codec, int workers) {
  Settings settings = settings_for("allreduce", workers);
  settings.mix.codec.kind = codec;
  if (codec == CodecSettings::Kind::top_k) settings.mix.codec.share = 0.1;
  return settings;
}

// Every bucket is a stream of its own, with what its codes have left out.
TEST(AllreduceStrategy, WithACodecIsTheCodedMeanOfEachBucketAndSendsNothingElse) {
  using enum CodecSettings::Kind;
  constexpr std::size_t kElements = 337;
  for (const CodecSettings::Kind codec : {half, top_k, threshold, quantized, sign}) {
    for (const bool feedback : {true, false}) {
      for (int size : kWorkerCounts) {
        constexpr int kBuckets = 3;
        Settings settings = with_codec(codec, size);
        settings.mix.codec.feedback = feedback;
        Workers workers(settings, 340, kElements);
        std::vector<CodedOracle> oracles;
        for (std::uint64_t bucket = 0; bucket < kBuckets; ++bucket) {
          oracles.emplace_back(size, part(kElements, kBuckets, bucket).size(), settings.mix.codec,
                               Random{1, bucket}.bits());
        }
        for (std::uint64_t step = 0; step < 5; ++step) {
          workers.gradients = random_vectors(size, kElements, step);
          Floats expected;
          for (int bucket = 0; bucket < kBuckets; ++bucket) {
            Vectors parts;
            for (Floats& gradients : workers.gradients) {
              const auto values = part_of(std::span<float>(gradients), kBuckets, bucket);
              parts.emplace_back(values.begin(), values.end());
            }
            const Floats mean = oracles[static_cast<std::size_t>(bucket)].mean(parts);
            expected.insert(expected.end(), mean.begin(), mean.end());
          }
          workers.after_backward(kBuckets);
          for (const Floats& gradients : workers.gradients) {
            ASSERT_EQ(gradients, expected) << name_of(codec) << " n=" << size << " step=" << step;
          }
        }
        for (int rank = 0; rank < size; ++rank) {
          std::uint64_t bytes = 0;
          for (const CodedOracle& oracle : oracles) {
            bytes += oracle.sent[static_cast<std::size_t>(rank)];
          }
          EXPECT_EQ(workers.sent_bytes(rank, Purpose::gradients), bytes);
        }
      }
    }
  }
}

TEST(AllreduceStrategy, WithACodecSendsWholeWeightsAtTheEndOnlyWhereTheyDiffer) {
  for (int size : {2, 5}) {
    Workers same(with_codec(CodecSettings::Kind::half, size), 1000, 1000);
    for (Floats& weights : same.weights) weights = same.weights[0];
    same.finish();
    EXPECT_LT(same.sent_bytes(), 200u);
    Workers other(with_codec(CodecSettings::Kind::half, size), 1000, 1000);
    const std::vector<double> mean = mean_of(other.weights);
    other.finish();
    for (const Floats& weights : other.weights) {
      EXPECT_EQ(weights, other.weights[0]);
      for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(weights[i], mean[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace starling
