#include "server/client.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/cluster.h"

namespace starling {
namespace {

struct Infos : Lender {
  explicit Infos(std::vector<KeyInfo>& into) : infos(into) {}
  std::optional<Bytes> lend(std::size_t bytes) override {
    infos.resize(bytes / sizeof(KeyInfo));
    return writable_bytes(std::span(infos));
  }
  std::vector<KeyInfo>& infos;
};

// Rank 0 is the worker; the others write down what they are told.
struct Listeners {
  Task<> talk(Comm& comm) {
    if (comm.rank() > 0) return listen(comm);
    client.emplace(comm, ServerClient::Options{1, comm.size() - 1, true}, keys);
    return client->hello({100, 10});
  }
  Task<> listen(Comm& comm) {
    const auto server = static_cast<std::size_t>(comm.rank() - 1);
    Infos told(infos[server]);
    co_await Group(comm).receive(0, kRequestChannel, object_bytes(hellos[server]), 1000, told);
  }

  std::vector<Key> keys;
  std::optional<ServerClient> client;
  std::vector<ControlRequest> hellos = std::vector<ControlRequest>(3);
  std::vector<std::vector<KeyInfo>> infos = std::vector<std::vector<KeyInfo>>(3);
};

TEST(ServerClient, TellsEachServerOfItsOwnBlocksOnly) {
  Cluster cluster(4);
  Listeners scene;
  scene.keys = {{0, {0, 5}}, {2, {5, 6}}, {0, {6, 9}}};
  cluster.run([&](Comm& comm) { return scene.talk(comm); });
  for (const ControlRequest& hello : scene.hellos) {
    EXPECT_EQ(hello.kind, ControlRequest::Kind::hello);
    EXPECT_EQ(hello.wants_eager, 1u);
    EXPECT_EQ(hello.units, 100u);
    EXPECT_EQ(hello.units_per_epoch, 10u);
  }
  EXPECT_EQ(scene.infos[0], (std::vector<KeyInfo>{{0, 5, 0}, {2, 3, 6}}));
  EXPECT_EQ(scene.infos[1], std::vector<KeyInfo>{});
  EXPECT_EQ(scene.infos[2], (std::vector<KeyInfo>{{1, 1, 5}}));
}

}  // namespace
}  // namespace starling
