// Own loops with parameter servers: nobody knows beforehand how many steps there will be, and
// workers end when they like.
#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/patience.h"
#include "server/server.h"
#include "sim/cluster.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

struct OwnLoop {
  int steps;
  Time compute;
};

// Two buckets of two weights each, whose gradients are all 1.
Task<> work(const Settings& settings, Comm& comm, const OwnLoop& loop, Time patience,
            std::vector<float>& weights) {
  std::vector<float> gradients(4);
  const Replica replica{weights, gradients};
  const std::vector<Range> parameters{{0, 2}, {2, 4}};
  const std::vector<Bucket> buckets = make_buckets(replica, parameters, 0);
  Workload workload;
  workload.buckets = ranges_of(buckets);
  const auto strategy = make_strategy(settings, comm, workload);
  Step step(*strategy, replica, buckets);
  co_await strategy->start(replica);
  for (int i = 0; i < loop.steps; ++i) {
    gradients.assign(4, 1.0f);
    co_await sleep_until(comm.loop(), comm.loop().now() + loop.compute);
    Task<bool> taken = step.take([&] {
      for (float& weight : weights) weight -= static_cast<float>(settings.optimizer.lr);
    });
    co_await taken;
  }
  co_await with_patience(comm, patience, "the end", strategy->finish(replica));
}

Task<> serve(const Settings& settings, Comm& comm) {
  Server server(serving_group(settings, comm), server_options(settings));
  co_await server.serve();
}

struct Result {
  std::vector<std::exception_ptr> errors;
  std::vector<std::vector<float>> weights;
};
Result run(const Settings& settings, const std::vector<OwnLoop>& loops, Time patience = 10s) {
  check_settings(settings);
  Result result;
  result.weights.assign(loops.size(), std::vector<float>(4, 10.0f));
  Cluster cluster(settings.workers + server_processes(settings));
  result.errors = cluster.try_run([&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    return rank < loops.size() ? work(settings, comm, loops[rank], patience, result.weights[rank])
                               : serve(settings, comm);
  });
  return result;
}

void expect_all_well(const Result& result) {
  for (const std::exception_ptr& error : result.errors) {
    EXPECT_NO_THROW(if (error) std::rethrow_exception(error));
  }
}

Settings server_settings(int workers, const std::string& gate) {
  Settings settings;
  settings.strategy = StrategyKind::server;
  settings.server.gate.kind = named<GateSettings::Kind>(gate);
  settings.workers = workers;
  settings.optimizer.lr = 0.5;
  settings.optimizer.momentum = 0;
  return settings;
}

TEST(OwnLoop, RunsInGroupsOfAnySize) {
  for (const char* gate : {"bsp", "ssp", "async", "value"}) {
    for (int group : {0, 1, 2, 3}) {
      for (int servers : {1, 2}) {
        SCOPED_TRACE(testing::Message() << gate << " group " << group << " servers " << servers);
        Settings settings = server_settings(6, gate);
        settings.server.group = group;
        settings.server.servers = servers;
        const Result result = run(settings, std::vector<OwnLoop>(6, {3, 1s}));
        expect_all_well(result);
        // A group's mean is one update, and each of them is, unless all wait for all.
        const int groups = group == 0 ? 1 : 6 / group;
        const int updates = std::string(gate) == "bsp" ? 3 : 3 * groups;
        for (const auto& weights : result.weights) {
          EXPECT_EQ(weights, std::vector<float>(4, 10.0f - 0.5f * static_cast<float>(updates)));
        }
      }
    }
  }
}

TEST(OwnLoop, WhoHasFinishedWaitsForOthersAsLongAsTheyGetOn) {
  for (const char* gate : {"async", "value", "quorum", "softsync", "ssp"}) {
    for (const char* placement : {"apart", "workers"}) {
      SCOPED_TRACE(testing::Message() << gate << " " << placement);
      Settings settings = server_settings(3, gate);
      settings.server.placement = named<ServerSettings::Placement>(placement);
      settings.server.servers = 2;
      if (settings.server.gate.kind == GateSettings::Kind::quorum) settings.server.gate.quorum = 1;
      expect_all_well(run(settings, {{1, 1s}, {20, 6s}, {2, 2s}}));
    }
  }
}

TEST(OwnLoop, WhoHasFinishedDoesNotWaitForTheSilent) {
  Settings settings = server_settings(2, "async");
  const Result result = run(settings, {{1, 1s}, {4, 30s}});
  ASSERT_TRUE(result.errors[0]);
  EXPECT_THROW(std::rethrow_exception(result.errors[0]), DeadlineExceeded);
}

TEST(OwnLoop, WhoHasFinishedWaitsForItsPeersAsLongAsTheyGetOn) {
  Settings settings;
  settings.strategy = StrategyKind::mix;
  settings.mix.graph.kind = GraphSettings::Kind::mesh;
  settings.mix.rule = MixingSettings::Rule::sum_weight;
  settings.schedule.kind = ScheduleSettings::Kind::async;
  settings.workers = 3;
  settings.optimizer.lr = 0.5;
  expect_all_well(run(settings, {{1, 1s}, {20, 6s}, {2, 2s}}));
}

}  // namespace
}  // namespace starling
