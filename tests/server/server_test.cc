// What a server says to those who speak its protocol, and to those who do not.
#include "server/server.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "server/clerk_client.h"
#include "tests/server/scripted_workers.h"
#include "tests/server/serve.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Gate = GateSettings::Kind;
using Kind = Act::Kind;

std::string error_of(const std::exception_ptr& error) {
  if (!error) return "no error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

// The server's error when worker 1 says something else than worker 0; both go away later.
std::string server_error(ScriptedWorkers& scene) {
  scene.cluster.crash(0, 50s);
  scene.cluster.crash(1, 50s);
  return error_of(scene.try_run()[2]);
}

TEST(Hello, OfAWorkerWithAnotherAmountOfWorkIsRefused) {
  for (const WorkPlan& other : {WorkPlan{101, 10}, WorkPlan{100, 11}}) {
    ScriptedWorkers scene(options_for(2, Gate::async), {{}, {}});
    scene.plans = {WorkPlan{100, 10}, other};
    EXPECT_EQ(server_error(scene),
              "rank 1 has another model or another amount of work than the others; all workers "
              "must run the same program with the same settings");
  }
}

TEST(Hello, OfAWorkerWithAnotherModelIsRefused) {
  const std::vector<Key> keys = {{0, {0, 2}}, {0, {2, 4}}};
  for (const std::vector<Key>& other :
       {std::vector<Key>{{0, {0, 2}}}, std::vector<Key>{{0, {0, 2}}, {0, {2, 3}}},
        std::vector<Key>{{0, {0, 1}}, {0, {1, 4}}},
        std::vector<Key>{{0, {0, 2}}, {0, {2, 4}}, {0, {4, 5}}}}) {
    ScriptedWorkers scene(options_for(2, Gate::async), {{}, {}}, keys);
    scene.keys_of[1] = other;
    scene.weights[1].resize(5);
    EXPECT_EQ(server_error(scene).find("rank 1 has another model"), 0u);
  }
}

TEST(Hello, WithTheSamePlanIsAcceptedByEveryServer) {
  ScriptedWorkers scene(
      options_for(3, Gate::bsp),
      {{{1s, Kind::push_pull, 1}}, {{1s, Kind::push_pull, 2}}, {{1s, Kind::push_pull, 6}}},
      {{0, {0, 2}}, {0, {2, 3}}, {1, {3, 5}}, {2, {5, 6}}});
  for (WorkPlan& plan : scene.plans) plan = {100, 10};
  scene.run();
  for (const auto& weights : scene.weights) EXPECT_EQ(weights, std::vector<float>(6, 7.0f));
  EXPECT_EQ(scene.reports[2].updates, 4u) << "of all blocks of all servers";
  EXPECT_EQ(scene.reports[0].applied(), 12u);
}

TEST(Answer, SaysHowManyPushesOfTheWorkerAndOfEverybodyAreInIt) {
  ScriptedWorkers scene(
      options_for(3, Gate::async),
      {{{1s, Kind::push_pull, 1}, {2s, Kind::push_pull, 1}, {7s, Kind::pull}},
       {{3s, Kind::push_pull, 1}, {9s, Kind::nothing}},
       {{4s, Kind::push_pull, 1}, {5s, Kind::push_pull, 1}, {9s, Kind::nothing}}});
  scene.run();
  ASSERT_EQ(scene.answers[0].size(), 3u);
  EXPECT_EQ(scene.answers[0][1].header.version, 2u);
  EXPECT_EQ(scene.answers[0][1].header.clock, 2u);
  EXPECT_EQ(scene.answers[0][1].header.closed, 0u);
  EXPECT_EQ(scene.answers[0][2].header.version, 5u);
  EXPECT_EQ(scene.answers[0][2].header.clock, 2u);
  EXPECT_EQ(scene.answers[0][2].header.closed, 1u);
  EXPECT_EQ(scene.answers[0][2].weight, 5.0f);
}

TEST(Answer, AfterDoneHasEverybodysLastPush) {
  for (const auto gate : {Gate::bsp, Gate::ssp, Gate::async, Gate::value, Gate::quorum}) {
    ScriptedWorkers scene(options_for(2, gate),
                          {{{1s, Kind::push_pull, 1}}, {{8s, Kind::push_pull, 3}}});
    scene.run();
    const bool mean = gate == Gate::bsp || gate == Gate::ssp;  // ssp with a delay bound of 0
    EXPECT_EQ(scene.weights[0][0], mean ? 8.0f : gate == Gate::quorum ? 9.0f : 6.0f);
    EXPECT_EQ(scene.weights[1], scene.weights[0]);
    EXPECT_EQ(scene.reports[0].applied() + scene.reports[0].dropped, 2u);
    EXPECT_EQ(scene.reports[0].applied(), scene.reports[1].applied());
  }
}

TEST(Settle, IsAnsweredWhenThePushIsInAndDoesNotCountAsARead) {
  ServerOptions options = options_for(2, Gate::value);
  options.gate.value_bound = 0.5;
  // Worker 0's first push is held until worker 1 pushes at 3 s. Then it has settled but not read,
  // so nothing holds worker 1's.
  ScriptedWorkers scene(options, {{{1s, Kind::push, 2}, {1s, Kind::settle}, {9s, Kind::nothing}},
                                  {{3s, Kind::push_pull, 4}, {5s, Kind::nothing}}});
  std::vector<Time> applied;
  scene.follower = [&](const Block&, std::span<const Push>) {
    applied.push_back(scene.cluster.loop().now());
  };
  scene.run();
  ASSERT_EQ(applied.size(), 2u);
  for (const Time time : applied) {
    EXPECT_GE(time, 3s);
    EXPECT_LT(time, 4s);
  }
}

TEST(Silence, EndsAServerOnlyWhenNobodyHasSaidAWord) {
  ServerOptions options = options_for(2, Gate::async);
  options.timeout = 10s;
  std::vector<Act> talkative;
  for (int i = 1; i <= 6; ++i) talkative.push_back({i * 6s, Kind::push_pull, 1});
  {
    ScriptedWorkers scene(options, {talkative, {{36s, Kind::push_pull, 1}}});
    EXPECT_NO_THROW(scene.run()) << "one of them is heard of every six seconds";
  }
  {
    ScriptedWorkers scene(options, {{{6s, Kind::push_pull, 1}, {17s, Kind::push_pull, 1}}, {}});
    scene.cluster.crash(0, 50s);
    scene.cluster.crash(1, 50s);
    EXPECT_EQ(error_of(scene.try_run()[2]),
              "no worker has said a word for 10 s; they may be stopped or very slow; --timeout "
              "grants more time");
  }
}

// Words that are not about blocks count as well: a clerk's customers may do other things first.
Task<> ask_for_work_now_and_then(Comm& comm) {
  ServerClient client(comm, {1, 1, false}, {{0, {0, 1}}});
  ClerkClient clerk(comm, Chain{1, 1, 1});
  co_await client.hello({100, 100});
  const std::vector<float> weights(1);
  co_await client.put(0, weights);
  for (int i = 1; i <= 6; ++i) {
    co_await sleep_until(comm.loop(), i * 6s);
    Task<std::uint64_t> work = clerk.next();
    EXPECT_EQ(co_await work, static_cast<std::uint64_t>(i) - 1);
  }
  Task<ServerReport> done = client.done();
  co_await done;
  co_await client.bye();
}
TEST(Silence, IsBrokenByAnyRequest) {
  Cluster cluster(2);
  ServerOptions options = options_for(1, Gate::bsp);
  options.timeout = 10s;
  cluster.run([&](Comm& comm) {
    return comm.rank() == 0 ? ask_for_work_now_and_then(comm) : serve(comm, options);
  });
}

// Three workers and a quorum of two, who want eager weights. When the third push of clock 0 comes,
// everybody's are in; worker 0 has pushed once more by then, and that one still waits.
Task<> work_eagerly(Comm& comm, WeightsHeader& eager) {
  ServerClient client(comm, {3, 1, true}, {{0, {0, 1}}});
  co_await client.hello({});
  std::vector<float> weights(1, 10.0f);
  const std::vector<float> gradient(1, 1.0f);
  if (comm.rank() == 0) co_await client.put(0, weights);
  Task<WeightsHeader> first = client.pull(0, weights);
  client.adopt(0, co_await first);
  co_await sleep_until(comm.loop(), (1 + comm.rank()) * 1s);  // the last one comes too late
  co_await client.push(0, gradient, 0);
  if (comm.rank() == 0) {
    co_await sleep_until(comm.loop(), 2500ms);
    Task<WeightsHeader> second = client.pull(0, weights);
    client.adopt(0, co_await second);
    co_await client.push(0, gradient, 1);
  }
  Task<WeightsHeader> next = client.next_eager(0, weights);
  eager = co_await next;
  EXPECT_EQ(weights[0], 9.0f);
  Task<ServerReport> done = client.done();
  co_await done;
  co_await client.bye();
}

TEST(Eager, WeightsDoNotClaimToHaveAPushThatStillWaits) {
  Cluster cluster(4);
  ServerOptions options = options_for(3, Gate::quorum);
  options.gate.quorum = 2;
  std::vector<WeightsHeader> eager(3);
  cluster.run([&](Comm& comm) {
    return comm.rank() < 3 ? work_eagerly(comm, eager[static_cast<std::size_t>(comm.rank())])
                           : serve(comm, options);
  });
  for (const WeightsHeader& header : eager) {
    EXPECT_EQ(header.version, 1u);
    EXPECT_EQ(header.clock, 1u);
    EXPECT_EQ(header.closed, 1u);
  }
}

}  // namespace
}  // namespace starling
