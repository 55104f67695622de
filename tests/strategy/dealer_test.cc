// Who takes which batch, in whole trainings: with slow workers, with losses, and when somebody asks
// all to stop.
#include "strategy/dealer.h"
#include "strategy/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "plan/simulated_training.h"
#include "server/server.h"
#include "strategy/progress.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"
#include "tests/strategy/workers.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Orders = std::vector<std::vector<std::uint64_t>>;  // the batches of each worker

SimulatedTraining dealt_training(int workers, const std::string& gate = "") {
  SimulatedTraining training;
  training.settings.workers = workers;
  training.settings.optimizer.lr = 0.1;
  training.settings.optimizer.momentum = 0;
  training.settings.strategy = gate.empty() ? StrategyKind::allreduce : StrategyKind::server;
  if (!gate.empty()) training.settings.server.gate.kind = named<GateSettings::Kind>(gate);
  training.batches = 60 * static_cast<std::uint64_t>(workers);
  training.batches_per_epoch = 10 * static_cast<std::uint64_t>(workers);
  training.jitter = 0.5;
  training.elements = 4;
  return training;
}

SimulatedTraining gossip(int workers) {
  SimulatedTraining training = dealt_training(workers);
  training.settings.strategy = StrategyKind::mix;
  training.settings.mix.graph.kind = GraphSettings::Kind::mesh;
  training.settings.mix.rule = MixingSettings::Rule::sum_weight;
  training.settings.schedule.kind = ScheduleSettings::Kind::async;
  return training;
}

std::vector<std::uint64_t> turns_of(std::size_t worker, std::size_t workers,
                                    std::uint64_t batches) {
  std::vector<std::uint64_t> turns;
  for (std::uint64_t batch = worker; batch < batches; batch += workers) turns.push_back(batch);
  return turns;
}

// How often each batch was dealt.
std::map<std::uint64_t, int> counted(const Orders& orders) {
  std::map<std::uint64_t, int> counts;
  for (const auto& order : orders) {
    for (std::uint64_t batch : order) ++counts[batch];
  }
  return counts;
}

void expect_each_once(const SimulatedTraining& training, const Orders& orders) {
  const auto counts = counted(orders);
  EXPECT_EQ(counts.size(), training.batches);
  for (const auto& [batch, count] : counts) EXPECT_EQ(count, 1) << batch;
  EXPECT_EQ(counts.rbegin()->first, training.batches - 1);
}

TEST(Dealer, WorkersInStepTakeTurns) {
  for (int workers : {1, 2, 3, 5}) {
    for (const char* strategy : {"allreduce", "pairwise", "single", "ring-leader", "server"}) {
      SimulatedTraining training = dealt_training(workers);
      training.settings.strategy = named<StrategyKind>(strategy);
      training.settings.server.gate.kind = GateSettings::Kind::bsp;
      training.settings.slow = std::to_string(workers - 1) + ":3";
      const Orders orders = simulate(training).order;
      for (std::size_t rank = 0; rank < orders.size(); ++rank) {
        EXPECT_EQ(orders[rank], turns_of(rank, orders.size(), training.batches)) << strategy;
      }
    }
  }
}

TEST(Dealer, AClerkGivesEachBatchToWhoeverIsFree) {
  for (int workers : {1, 2, 3, 5}) {
    for (const char* gate : {"async", "ssp", "value"}) {
      SimulatedTraining training = dealt_training(workers, gate);
      training.settings.slow = std::to_string(workers - 1) + ":3";
      const Orders orders = simulate(training).order;
      expect_each_once(training, orders);
      for (const auto& order : orders) EXPECT_TRUE(std::ranges::is_sorted(order)) << gate;
      if (workers > 1 && std::string(gate) == "async") {
        EXPECT_GT(orders[0].size(), 2 * orders.back().size()) << "who is faster does more";
      }
    }
  }
}

TEST(Dealer, AClerkDealsEachBatchOnceThoughAWorkerIsLost) {
  for (const Time when : {Time(5ms), Time(123ms), Time(300ms)}) {
    SimulatedTraining training = dealt_training(4, "async");
    training.faults.crashes.push_back({2, when});
    expect_each_once(training, simulate(training).order);
  }
}

TEST(Dealer, AClerkEndsAnEpochForAllAfterAShareOfIt) {
  SimulatedTraining training = dealt_training(4, "async");
  training.settings.server.gate.epoch_share = 0.75;
  training.settings.slow = "3:4";
  const Orders orders = simulate(training).order;
  std::map<std::uint64_t, std::uint64_t> of_epoch;
  for (const auto& [batch, count] : counted(orders)) {
    EXPECT_EQ(count, 1) << batch;
    ++of_epoch[batch / training.batches_per_epoch];
  }
  ASSERT_EQ(of_epoch.size(), 6u);
  for (const auto& [epoch, batches] : of_epoch) {
    EXPECT_GE(batches, 30u) << epoch;
    EXPECT_LT(batches, 40u) << epoch << ": the slow one does not do all of its own";
  }
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    for (std::uint64_t batch : orders[rank]) EXPECT_EQ(batch % 4, rank);
  }
}

TEST(Dealer, AGroupSharesAUnitOfTheClerks) {
  SimulatedTraining training = dealt_training(6, "async");
  training.settings.server.group = 3;
  training.settings.slow = "4:3";
  const Orders orders = simulate(training).order;
  expect_each_once(training, orders);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const auto& first = orders[rank / 3 * 3];
    ASSERT_EQ(orders[rank].size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(orders[rank][i], first[i] + rank % 3);
  }
  EXPECT_GT(orders[0].size(), 2 * orders[3].size());
}

TEST(Dealer, WhereNobodyWaitsWhoHasDoneItsShareHelpsWithTheRest) {
  for (int workers : {1, 2, 3, 5}) {
    SimulatedTraining training = gossip(workers);
    if (workers > 1) training.settings.slow = "0:5";
    const SimulatedResult result = simulate(training);
    const auto n = static_cast<std::size_t>(workers);
    EXPECT_GE(result.all_batches(), training.batches);
    EXPECT_LE(result.all_batches(), training.batches + 2 * n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      const auto turns = turns_of(rank, n, training.batches);
      const auto& order = result.order[rank];
      for (std::size_t i = 0; i < order.size(); ++i) {
        EXPECT_LT(order[i], training.batches);
        if (i < turns.size()) {
          EXPECT_EQ(order[i], turns[i]);
        }
      }
      if (workers > 1) {
        EXPECT_EQ(order.size() > turns.size(), rank > 0) << rank;
      }
    }
  }
}

TEST(Dealer, AHelperTakesNoBatchBehindTheLast) {
  Cluster cluster(2);
  Progress progress(cluster.comm(0), 7, 1);
  progress.did(6);
  const auto dealer = make_progress_dealer(cluster.comm(0), 7, progress);
  std::vector<std::uint64_t> order;
  for (int i = 0; i < 7; ++i) order.push_back(cluster.loop().run(dealer->next()).value());
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 2, 4, 6, 6, 6, 6}));
}

TEST(Dealer, WhereNobodyWaitsTheOthersDoTheWorkOfALostOne) {
  SimulatedTraining training = gossip(4);
  training.faults.crashes.push_back({1, 200ms});
  const SimulatedResult result = simulate(training);
  EXPECT_LT(result.batches[1], 25u);
  EXPECT_GE(result.all_batches(), training.batches);
  EXPECT_LE(result.all_batches(), training.batches + 12);
  for (const auto& order : result.order) {
    for (std::uint64_t batch : order) EXPECT_LT(batch, training.batches);
  }
}

// Trains until there is no more work; one of them asks all to stop after some batches.
Task<> work_until_told(const SimulatedTraining& training, Comm& comm, int stopper,
                       std::vector<std::uint64_t>& order) {
  Floats weights(training.elements), gradients(training.elements);
  const Replica replica{weights, gradients};
  const std::vector<Range> parameters{{0, training.elements}};
  const std::vector<Bucket> buckets = make_buckets(replica, parameters, 0);
  const Settings& settings = training.settings;
  const Workload workload{ranges_of(buckets), training.batches, training.batches_per_epoch};
  const auto strategy = make_strategy(settings, comm, workload);
  const auto dealer = make_dealer(settings, comm, workload, *strategy);
  Step step(*strategy, replica, buckets, settings.backward_passes);
  co_await strategy->start(replica);
  while (true) {
    Task<std::optional<std::uint64_t>> next = dealer->next();
    const std::optional<std::uint64_t> batch = co_await next;
    if (!batch) break;
    order.push_back(*batch);
    if (comm.rank() == stopper && order.size() == 10) co_await dealer->stop();
    co_await sleep_until(comm.loop(), comm.loop().now() + 10ms);
    dealer->look_ahead();
    Task<bool> taken = step.take([] {});
    co_await taken;
  }
  co_await strategy->finish(replica);
}

Orders orders_of(const SimulatedTraining& training, int stopper) {
  const int workers = training.settings.workers;
  check_settings(training.settings);
  Orders orders(static_cast<std::size_t>(workers));
  std::vector<std::unique_ptr<Server>> servers;
  Cluster cluster(workers + server_processes(training.settings));
  cluster.run([&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    if (rank < orders.size()) return work_until_told(training, comm, stopper, orders[rank]);
    servers.push_back(std::make_unique<Server>(serving_group(training.settings, comm),
                                               server_options(training.settings)));
    return servers.back()->serve();
  });
  return orders;
}

TEST(Dealer, StopsAllSoonAfterOneHasAskedFor) {
  for (const char* how : {"async", "epoch share", "gossip", "ring-leader"}) {
    for (int stopper : {0, 2}) {
      SimulatedTraining training = dealt_training(3);
      if (find_named<GateSettings::Kind>(how)) training = dealt_training(3, how);
      if (std::string(how) == "epoch share") {
        training = dealt_training(3, "async");
        training.settings.server.gate.epoch_share = 0.75;
      }
      if (std::string(how) == "gossip") training = gossip(3);
      if (std::string(how) == "ring-leader") training.settings.strategy = StrategyKind::ring_leader;
      const Orders orders = orders_of(training, stopper);
      for (const auto& order : orders) {
        EXPECT_GE(order.size(), 9u) << how;
        EXPECT_LE(order.size(), 12u) << how;
        if (std::string(how) == "ring-leader") {
          EXPECT_EQ(order.size(), 10u);
        }
      }
      for (const auto& order : orders_of(training, -1)) EXPECT_GE(order.size(), 50u) << how;
    }
  }
}

// Several batches make a step where gradients are summed.
TEST(Dealer, CountsBatchesNotSteps) {
  for (const char* schedule : {"async", "bounded"}) {
    SimulatedTraining training = gossip(3);
    training.settings.schedule.kind = named<ScheduleSettings::Kind>(schedule);
    training.settings.backward_passes = 4;
    const Orders orders = orders_of(training, -1);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_NEAR(static_cast<double>(orders[rank].size()), 60, 8);
      auto turns = turns_of(rank, 3, training.batches);
      turns.resize(std::min(turns.size(), orders[rank].size()));
      EXPECT_TRUE(std::ranges::equal(turns, std::span(orders[rank]).first(turns.size())));
    }
  }
}

TEST(Dealer, HasNothingToDealWhereThereAreNoBatches) {
  for (SimulatedTraining training : {gossip(2), dealt_training(2), dealt_training(2, "async")}) {
    training.batches = 0;
    for (const auto& order : simulate(training).order) EXPECT_TRUE(order.empty());
  }
}

}  // namespace
}  // namespace starling
