#include "exchange/allreduce.h"

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

}  // namespace
}  // namespace starling
