#include "server/server_estate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "server/client.h"
#include "sim/cluster.h"

namespace starling {
namespace {

constexpr std::uint32_t kServingNumber = 1, kBlocksNumber = 2;
constexpr std::size_t kModelElements = 11;

ServerOptions elastic_options(int servers, int replicas) {
  ServerOptions options;
  options.workers = 1;
  options.chain = {1, servers, std::min(replicas, servers)};
  options.optimizer.lr = 1;
  options.optimizer.momentum = replicas > 1 ? 0.5 : 0.0;
  options.gate.kind = GateSettings::Kind::async;
  options.elastic = true;
  return options;
}

// The servers of a generation behind one worker, which puts `first` where they have nothing, fetches all
// and pushes ones; returns what it had in the end, and how many bytes of weights the servers sent each
// other. If the last server is lost, at that time, the worker only fetches.
struct Outcome {
  std::vector<float> weights;
  std::uint64_t handed_over = 0;
};
Outcome train_generation(std::vector<ServerEstate*> estates, std::uint64_t number, float first,
                         int replicas = 1, std::optional<Time> lost_at = std::nullopt) {
  const int servers = static_cast<int>(estates.size());
  Cluster cluster(1 + servers, {{1e6, std::chrono::microseconds(100)}, {}});
  if (lost_at) cluster.crash(servers, *lost_at);
  Outcome outcome;
  const auto serve = [&](Comm& comm, ServerEstate& estate) -> Task<> {
    std::vector<int> ranks;
    for (int rank = 1; rank <= servers; ++rank) ranks.push_back(rank);
    if (number > 1) co_await estate.take_over(Group(comm, ranks, kBlocksNumber), servers, number);
    outcome.handed_over += comm.ledger().total(Direction::sent, Purpose::weights).payload;
    Server server(Group(comm).apart(kServingNumber), elastic_options(servers, replicas),
                  estate.past());
    std::exception_ptr failure;
    try {
      co_await server.serve();
    } catch (const Error&) {
      failure = std::current_exception();
    }
    estate.keep(server);
    if (failure) std::rethrow_exception(failure);
  };
  const auto work = [&](Comm& comm) -> Task<> {
    ServerClient::Options options;
    options.first_server = 1;
    options.servers = servers;
    options.replicas = std::min(replicas, servers);
    options.elastic = true;
    ServerClient client(Group(comm).apart(kServingNumber), options,
                        cut_into_keys(kModelElements, servers, {}, 4));
    co_await client.hello({1, 1});
    outcome.weights.assign(kModelElements, first);
    const std::vector<float> ones(kModelElements, 1.0f);
    const auto weights_of = [&](std::size_t key) {
      const Range range = client.keys()[key].range;
      return std::span(outcome.weights).subspan(range.begin, range.size());
    };
    for (std::size_t key = 0; key < client.keys().size(); ++key) {
      co_await client.put(key, weights_of(key));
    }
    for (const bool pushes : {false, true}) {
      if (pushes && lost_at) co_await sleep_until(comm.loop(), *lost_at + std::chrono::seconds(1));
      for (std::size_t key = 0; key < client.keys().size(); ++key) {
        const std::span<float> weights = weights_of(key);
        if (pushes) co_await client.push(key, std::span(ones).first(weights.size()), 0);
        Task<WeightsHeader> pull = client.pull(key, weights);
        co_await pull;
      }
    }
    Task<ServerReport> done = client.done();
    co_await done;
    co_await client.bye();
  };
  const std::vector<std::exception_ptr> failures = cluster.try_run([&](Comm& comm) -> Task<> {
    if (comm.rank() == 0) return work(comm);
    return serve(comm, *estates[static_cast<std::size_t>(comm.rank() - 1)]);
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure && !lost_at) std::rethrow_exception(failure);
  }
  return outcome;
}

std::vector<float> everywhere(float value) { return std::vector<float>(kModelElements, value); }

TEST(ServerEstate, GoesOnWithWhatItHasIfNobodyCameOrWent) {
  ServerEstate a, b;
  EXPECT_EQ(train_generation({&a, &b}, 1, 10).weights, everywhere(9));
  train_generation({&a, &b}, 2, 0);  // who they were is known from here on
  const Outcome again = train_generation({&a, &b}, 3, 0);
  EXPECT_EQ(again.weights, everywhere(7));
  EXPECT_EQ(again.handed_over, 0u);
}

TEST(ServerEstate, IsSharedOutAnewAmongMoreOrFewer) {
  ServerEstate a, b, c;
  train_generation({&a, &b}, 1, 10);
  EXPECT_EQ(train_generation({&a, &b, &c}, 2, 0).weights, everywhere(8));
  EXPECT_EQ(train_generation({&c, &b, &a}, 3, 0).weights, everywhere(7));
}

TEST(ServerEstate, OfALostServerComesFromTheWorker) {
  ServerEstate a, b;
  train_generation({&a, &b}, 1, 10);
  train_generation({&a, &b}, 2, 0);  // where they told each other all that they had
  const std::vector<float> weights =
      train_generation({&b}, 3, 0).weights;  // a had the first elements
  EXPECT_EQ(weights.front(), -1);
  EXPECT_EQ(weights.back(), 7);
}

// Whenever that is, whether or not the servers have just changed, and if the next one is lost as soon.
// The velocity shows that the optimizers' state has been kept, too.
TEST(ServerEstate, OfALostServerComesFromItsCopyAlsoWhileThatIsBeingMadeAgain) {
  using namespace std::chrono_literals;
  for (const std::uint64_t before : {1u, 2u}) {
    for (Time lost_at{0}; lost_at < 4ms; lost_at += 50us) {
      ServerEstate a, b, other;
      float expected = 10, velocity = 0;
      const auto push = [&] {
        velocity = 0.5f * velocity + 1;
        expected -= velocity;
        return everywhere(expected);
      };
      for (std::uint64_t generation = 1; generation <= before; ++generation) {
        EXPECT_EQ(train_generation({&a, &b}, generation, 10, 2).weights, push());
      }
      train_generation({&a, &b}, before + 1, 0, 2, lost_at);
      train_generation({&a, &other}, before + 2, 0, 2, lost_at);
      ASSERT_EQ(train_generation({&a}, before + 3, 0, 2).weights, push())
          << "lost after " << lost_at.count() << " ns in generation " << before + 1;
    }
  }
}

TEST(ServerEstate, ThatIsOlderGivesWay) {
  ServerEstate away, a;
  train_generation({&away}, 1, 10);
  train_generation({&a}, 2, 100);
  EXPECT_EQ(train_generation({&away, &a}, 3, 0).weights, everywhere(98));
}

}  // namespace
}  // namespace starling
