// The parameter server on real loopback sockets.
#include <gtest/gtest.h>

#include "base/error.h"
#include "server/client.h"
#include "server/lanes.h"
#include "server/server.h"
#include "tests/counted_allocations.h"
#include "tests/net/flock.h"
#include "tests/server/serve.h"

namespace starling {
namespace {

constexpr int kWorkers = 2;
constexpr std::size_t kTcpElements = 200'000;

ServerOptions options_with(GateSettings::Kind gate) {
  ServerOptions options;
  options.workers = kWorkers;
  options.gate.kind = gate;
  options.optimizer.lr = 0.5;
  return options;
}

struct Training {
  std::vector<float> weights = std::vector<float>(kTcpElements, 1.0f);
  std::vector<float> gradient = std::vector<float>(kTcpElements, 0.01f);
  std::size_t allocations_made = 0;
};

Task<> exchange(ServerClient& client, std::size_t key, std::uint64_t clock, Training& training) {
  const Range range = client.keys()[key].range;
  Task<WeightsHeader> answer = client.push_pull(
      key, std::span<const float>(training.gradient).subspan(range.begin, range.size()), clock,
      std::span<float>(training.weights).subspan(range.begin, range.size()));
  client.adopt(key, co_await answer);
}

Task<> work(Comm& comm, Training& training, std::uint64_t steps) {
  ServerClient client(comm, {kWorkers, 1, false}, cut_into_keys(kTcpElements, 1, {}, 20'000));
  Lanes lanes(client.keys());
  co_await client.hello({});
  for (std::size_t key = 0; key < client.keys().size(); ++key) {
    const Range range = client.keys()[key].range;
    const std::span<float> block =
        std::span<float>(training.weights).subspan(range.begin, range.size());
    if (comm.rank() == 0) co_await client.put(key, block);
    Task<WeightsHeader> pull = client.pull(key, block);
    client.adopt(key, co_await pull);
  }
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (step == steps / 2) training.allocations_made = allocations;
    co_await lanes.take(0, client.keys().size(), [&, step](std::size_t key) {
      return exchange(client, key, step, training);
    });
  }
  training.allocations_made = allocations - training.allocations_made;
  Task<ServerReport> done = client.done();
  co_await done;
  co_await client.bye();
}

TEST(TcpServer, BspGivesAllTheSameWeights) {
  Flock flock(kWorkers + 1);
  const ServerOptions options = options_with(GateSettings::Kind::bsp);
  std::vector<Training> trainings(kWorkers);
  flock.run([&](Comm& comm) {
    if (comm.rank() == kWorkers) return serve(comm, options);
    return work(comm, trainings[static_cast<std::size_t>(comm.rank())], 20);
  });
  EXPECT_NEAR(trainings[0].weights[0], 1 - 20 * 0.5 * 0.01, 1e-5);
  EXPECT_EQ(trainings[0].weights, trainings[1].weights);
}

TEST(TcpServer, AStepAllocatesNothing) {
  for (const auto gate : {GateSettings::Kind::bsp, GateSettings::Kind::async}) {
    Flock flock(kWorkers + 1);
    const ServerOptions options = options_with(gate);
    std::vector<Training> trainings(kWorkers);
    flock.run([&](Comm& comm) {
      if (comm.rank() == kWorkers) return serve(comm, options);
      return work(comm, trainings[static_cast<std::size_t>(comm.rank())], 200);
    });
    // The other worker may still warm up, or be done already, while one counts.
    EXPECT_LE(std::min(trainings[0].allocations_made, trainings[1].allocations_made), 2u);
  }
}

// Requests that no worker of ours makes.
enum class Mischief {
  wrong_kind,
  too_many_keys,
  huge_block,
  wrong_clock,
  from_the_future,
  wrong_rate,
  factors,
  too_few_values,
  values_unasked_for
};

Task<> misbehave(Comm& comm, Mischief mischief) {
  const int server = 1;
  ControlRequest hello;
  std::vector<KeyInfo> infos = {{0, 100, 0}};
  if (mischief == Mischief::wrong_kind) hello.kind = static_cast<ControlRequest::Kind>(77);
  if (mischief == Mischief::too_many_keys) infos.resize(kMaxKeys + 1);
  if (mischief == Mischief::huge_block) infos[0].elements = kMaxBlockElements + 1;
  std::vector<float> values(100, 0.0f);
  KeyRequest request;
  request.flags = KeyRequest::kPush;
  if (mischief == Mischief::wrong_clock) request.clock = 5;
  if (mischief == Mischief::from_the_future) request.version = 99;
  if (mischief == Mischief::wrong_rate) request.rate = 1.5;
  if (mischief == Mischief::too_few_values) values.resize(99);
  if (mischief == Mischief::values_unasked_for) request.flags = KeyRequest::kPull;
  if (mischief == Mischief::factors) {
    request.flags |= KeyRequest::kFactors;
    request.batch = request.inputs = request.outputs = 0xffffffff;
  }
  const Group group(comm);
  co_await group.send(server, kRequestChannel, object_bytes(hello), bytes_of(std::span(infos)));
  const int pushes = mischief == Mischief::wrong_clock ? 2 : 1;  // the second of an earlier step
  for (int i = 0; i < pushes; ++i) {
    co_await group.send(server, request_channel(0), object_bytes(request),
                        bytes_of(std::span(values)));
    request.clock = 0;
  }
  WeightsHeader never;
  co_await comm.receive(server, pull_channel(0), object_bytes(never));
}

Task<> expect_refusal(Comm& comm, const ServerOptions& options, std::string& why) {
  Server server(comm, options);
  try {
    co_await server.serve();
  } catch (const Error& error) {
    why = error.what();
  }
}

TEST(TcpServer, RefusesRequestsThatMakeNoSense) {
  const std::string huge =
      fmt::format("a worker asks for a block of {} elements", kMaxBlockElements + 1);
  const std::vector<std::pair<Mischief, std::string>> all = {
      {Mischief::wrong_kind, "rank 0 did not say hello"},
      {Mischief::too_many_keys,
       "1572920 bytes in a request to a server where 1572896 were the most"},
      {Mischief::huge_block, huge},
      {Mischief::wrong_clock, "rank 0 pushed what cannot have happened yet"},
      {Mischief::from_the_future, "rank 0 pushed what cannot have happened yet"},
      {Mischief::wrong_rate, "rank 0 wants 1.5 times the learning rate"},
      {Mischief::factors, "rank 0 sent factors that do not fit their block"},
      {Mischief::too_few_values, "rank 0 sent 99 values for a block of 100"},
      {Mischief::values_unasked_for, "rank 0 sent 100 values for a block of 100"}};
  for (const auto& [mischief, expected] : all) {
    Flock flock(2);
    ServerOptions options = options_with(GateSettings::Kind::async);
    options.workers = 1;
    std::string why;
    std::vector<Task<>> ends;
    Running worker(misbehave(flock.comm(0), mischief));
    flock.loop().run(within(flock.loop(), flock.loop().now() + std::chrono::seconds(10), "the test",
                            expect_refusal(flock.comm(1), options, why)));
    EXPECT_NE(why.find(expected), std::string::npos) << why;
    EXPECT_NE(why.find("; all workers must run the same program with the same"), std::string::npos);
  }
}

}  // namespace
}  // namespace starling
