#include "server/server_estate.h"

#include <gtest/gtest.h>

#include "server/client.h"
#include "sim/cluster.h"

namespace starling {
namespace {

constexpr std::uint32_t kServingNumber = 1, kBlocksNumber = 2;
constexpr std::size_t kModelElements = 11;

ServerOptions elastic_options(int servers) {
  ServerOptions options;
  options.workers = 1;
  options.chain = {1, servers, 1};
  options.optimizer.lr = 1;
  options.gate.kind = GateSettings::Kind::async;
  options.elastic = true;
  return options;
}

// The servers of a generation behind one worker, which puts `first` where they have nothing and pushes
// ones; returns what it had in the end, and how many bytes of weights the servers sent each other.
struct Outcome {
  std::vector<float> weights;
  std::uint64_t handed_over = 0;
};
Outcome train_generation(std::vector<ServerEstate*> estates, std::uint64_t number, float first) {
  const int servers = static_cast<int>(estates.size());
  Cluster cluster(1 + servers);
  Outcome outcome;
  const auto serve = [&](Comm& comm, ServerEstate& estate) -> Task<> {
    std::vector<int> ranks;
    for (int rank = 1; rank <= servers; ++rank) ranks.push_back(rank);
    if (number > 1) co_await estate.take_over(Group(comm, ranks, kBlocksNumber), servers, number);
    outcome.handed_over += comm.ledger().total(Direction::sent, Purpose::weights).payload;
    Server server(Group(comm).apart(kServingNumber), elastic_options(servers), estate.past());
    co_await server.serve();
    estate.keep(server);
  };
  const auto work = [&](Comm& comm) -> Task<> {
    ServerClient::Options options;
    options.first_server = 1;
    options.servers = servers;
    options.elastic = true;
    ServerClient client(Group(comm).apart(kServingNumber), options,
                        cut_into_keys(kModelElements, servers, {}, 4));
    co_await client.hello({1, 1});
    outcome.weights.assign(kModelElements, first);
    const std::vector<float> ones(kModelElements, 1.0f);
    for (std::size_t key = 0; key < client.keys().size(); ++key) {
      const Range range = client.keys()[key].range;
      const auto weights = std::span(outcome.weights).subspan(range.begin, range.size());
      co_await client.put(key, weights);
      co_await client.push(key, std::span(ones).first(range.size()), 0);
      Task<WeightsHeader> pull = client.pull(key, weights);
      co_await pull;
    }
    Task<ServerReport> done = client.done();
    co_await done;
    co_await client.bye();
  };
  cluster.run([&](Comm& comm) -> Task<> {
    if (comm.rank() == 0) return work(comm);
    return serve(comm, *estates[static_cast<std::size_t>(comm.rank() - 1)]);
  });
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
  const std::vector<float> weights =
      train_generation({&b}, 2, 0).weights;  // a had the first elements
  EXPECT_EQ(weights.front(), -1);
  EXPECT_EQ(weights.back(), 8);
}

TEST(ServerEstate, ThatIsOlderGivesWay) {
  ServerEstate away, a;
  train_generation({&away}, 1, 10);
  train_generation({&a}, 2, 100);
  EXPECT_EQ(train_generation({&away, &a}, 3, 0).weights, everywhere(98));
}

}  // namespace
}  // namespace starling
