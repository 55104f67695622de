#include "server/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "runtime/all.h"
#include "server/client.h"
#include "server/server.h"
#include "sim/cluster.h"
#include "sim/sim_loop.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// Blocks of one element: `counts[s]` of them at server s.
std::vector<Key> keys_of(const std::vector<std::size_t>& counts) {
  std::vector<Key> keys;
  for (std::size_t server = 0; server < counts.size(); ++server) {
    for (std::size_t i = 0; i < counts[server]; ++i) {
      keys.push_back({static_cast<int>(server), {keys.size(), keys.size() + 1}});
    }
  }
  return keys;
}

// Notes what is under way at each server.
struct Watch {
  SimLoop& loop;
  const std::vector<Key>& keys;
  std::vector<std::size_t> begun = {};
  std::map<int, int> under_way = {}, most_under_way = {};

  Task<> operation(std::size_t key) {
    begun.push_back(key);
    const int server = keys[key].server;
    most_under_way[server] = std::max(most_under_way[server], ++under_way[server]);
    co_await sleep_until(loop, loop.now() + 1s);
    --under_way[server];
  }
};

TEST(Lanes, TakeEveryKeyOnceAFewAtATimeOfEachServer) {
  for (const std::vector<std::size_t>& counts : std::vector<std::vector<std::size_t>>{
           {0}, {1}, {3}, {4}, {5}, {13}, {100}, {1, 9}, {9, 1}, {4, 4}, {5, 6, 7}}) {
    const std::vector<Key> keys = keys_of(counts);
    SimLoop loop;
    Watch watch{loop, keys};
    Lanes lanes(keys);
    loop.run(lanes.take(0, keys.size(), [&](std::size_t key) { return watch.operation(key); }));

    std::ranges::sort(watch.begun);
    ASSERT_EQ(watch.begun.size(), keys.size());
    for (std::size_t key = 0; key < keys.size(); ++key) EXPECT_EQ(watch.begun[key], key);
    for (std::size_t server = 0; server < counts.size(); ++server) {
      const int expected = static_cast<int>(std::min<std::size_t>(4, counts[server]));
      EXPECT_EQ(watch.most_under_way[static_cast<int>(server)], expected);
    }
    const std::size_t longest = std::ranges::max(counts);
    EXPECT_EQ(loop.now(), std::chrono::seconds((longest + 3) / 4)) << "servers work side by side";
  }
}

TEST(Lanes, BeginInOrder) {
  const std::vector<Key> keys = keys_of({10});
  SimLoop loop;
  Watch watch{loop, keys};
  Lanes lanes(keys);
  loop.run(lanes.take(2, 9, [&](std::size_t key) { return watch.operation(key); }));
  EXPECT_EQ(watch.begun, (std::vector<std::size_t>{2, 3, 4, 5, 6, 7, 8}));
}

Task<> fail_at(std::size_t key, std::size_t bad) {
  if (key == bad) throw Error("it broke");
  co_return;
}

TEST(Lanes, PassOnAFailure) {
  const std::vector<Key> keys = keys_of({10});
  SimLoop loop;
  Lanes lanes(keys);
  EXPECT_THROW(loop.run(lanes.take(0, 10, [](std::size_t key) { return fail_at(key, 7); })), Error);
}

// A worker whose two stretches begin in an order of its own, where each block is answered only when
// everybody has pushed it.
class ContraryWorker {
 public:
  ContraryWorker(Comm& comm, bool last_stretch_first)
      : client_(comm, {2, 1, false}, keys_of({30})),
        lanes_(client_.keys()),
        is_first_(comm.rank() == 0),
        last_stretch_first_(last_stretch_first) {}

  Task<> work() {
    co_await client_.hello({});
    for (std::size_t key = 0; is_first_ && key < 30; ++key) {
      co_await client_.put(key, of_key(key));
    }
    co_await lanes_.take(0, 30, [this](std::size_t key) { return fetch(key); });
    for (std::uint64_t step = 0; step < 3; ++step) {
      std::vector<Task<>> stretches;
      const auto push = [this, step](std::size_t key) { return exchange(key, step); };
      stretches.push_back(lanes_.take(0, 15, push));
      stretches.push_back(lanes_.take(15, 30, push));
      if (last_stretch_first_) std::swap(stretches[0], stretches[1]);
      co_await all(std::move(stretches));
    }
    Task<ServerReport> done = client_.done();
    co_await done;
    co_await client_.bye();
  }

  const std::vector<float>& weights() const { return weights_; }

 private:
  std::span<float> of_key(std::size_t key) { return std::span(weights_).subspan(key, 1); }
  Task<> fetch(std::size_t key) {
    Task<WeightsHeader> pull = client_.pull(key, of_key(key));
    client_.adopt(key, co_await pull);
  }
  Task<> exchange(std::size_t key, std::uint64_t step) {
    Task<WeightsHeader> answer = client_.push_pull(
        key, std::span<const float>(gradient_).subspan(key, 1), step, of_key(key));
    client_.adopt(key, co_await answer);
  }

  ServerClient client_;
  Lanes lanes_;
  bool is_first_;
  bool last_stretch_first_;
  std::vector<float> weights_ = std::vector<float>(30, 1.0f);
  std::vector<float> gradient_ = std::vector<float>(30, 0.25f);
};

TEST(Lanes, OfWorkersInAnotherOrderDoNotWaitForEachOtherForever) {
  Cluster cluster(3);
  ServerOptions options;
  options.workers = 2;
  options.gate.kind = GateSettings::Kind::bsp;
  options.optimizer.lr = 0.5;
  Server server(cluster.comm(2), options);
  ContraryWorker one(cluster.comm(0), false);
  ContraryWorker other(cluster.comm(1), true);
  cluster.run([&](Comm& comm) {
    return comm.rank() == 2 ? server.serve() : comm.rank() == 0 ? one.work() : other.work();
  });
  const std::vector<float> expected(30, 1.0f - 3 * 0.5f * 0.25f);
  EXPECT_EQ(one.weights(), expected);
  EXPECT_EQ(other.weights(), expected);
}

}  // namespace
}  // namespace starling
