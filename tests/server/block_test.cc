#include "server/block.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/sim_loop.h"

namespace starling {
namespace {

using Gate = GateSettings::Kind;

// A block that begins at 10, with a learning rate of 1.
class Scene {
 public:
  explicit Scene(const GateSettings& settings, int workers, std::size_t elements = 1,
                 StalenessRule staleness = {})
      : gate_(make_gate(settings)),
        block(loop, options(workers, elements, staleness), *gate_, report),
        gradients_(static_cast<std::size_t>(workers), std::vector<float>(elements)),
        keeping_up_(block.keep_up()) {
    std::ranges::fill(block.weights(), 10.0f);
    block.have_weights();
    for (int worker = 0; worker < workers; ++worker) read(worker);
  }

  // All that is pushed before settle() arrives at the same time.
  void push(int worker, float gradient, std::uint64_t version = 0, double rate = 1) {
    std::vector<float>& memory = gradients_[static_cast<std::size_t>(worker)];
    std::ranges::fill(memory, gradient);
    block.arrived({worker, block.clock(worker), version, memory, rate});
  }
  void settle() { loop.poll(); }

  // Into the memory of the worker's last push, as the server does.
  float read(int worker) {
    std::vector<float>& memory = gradients_[static_cast<std::size_t>(worker)];
    return loop.run(block.read(worker, memory)).back();
  }

  SimLoop loop;
  ServerReport report;

 private:
  static Block::Options options(int workers, std::size_t elements, StalenessRule staleness) {
    Block::Options options{elements, workers, {}, staleness};
    options.optimizer.lr = 1;
    return options;
  }
  std::unique_ptr<starling::Gate> gate_;

 public:
  Block block;

 private:
  std::vector<std::vector<float>> gradients_;
  Running keeping_up_;
};

TEST(Block, GivesAReaderWhatOthersHaveDoneSinceItsOwnPushAsWell) {
  Scene scene({.kind = Gate::async}, 3, 2);
  for (int worker : {1, 0, 2}) scene.push(worker, 1);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 3u);
  for (int worker : {0, 1, 2}) EXPECT_EQ(scene.read(worker), 7.0f);
}

TEST(Block, GivesAReaderThatDidNotPushTheNewestWeights) {
  Scene scene({.kind = Gate::async}, 2);
  scene.push(0, 1);
  scene.settle();
  EXPECT_EQ(scene.read(1), 9.0f);
  EXPECT_EQ(scene.read(1), 9.0f);
  EXPECT_EQ(scene.read(0), 9.0f);
  scene.push(1, 2, 1);
  scene.settle();
  EXPECT_EQ(scene.read(0), 7.0f);
}

// In single precision, (1e8 + 1) - 1e8 is 0, but 1e8 - 1e8 + 1 is 1.
TEST(Block, AddsUpARoundInTheOrderOfRanksWhateverTheOrderOfArrival) {
  for (const GateSettings& settings :
       {GateSettings{.kind = Gate::bsp}, GateSettings{.kind = Gate::ssp, .delay_bound = 0},
        GateSettings{.kind = Gate::quorum, .quorum = 3}}) {
    const float gradients[] = {1e8f, 1.0f, -1e8f};
    std::vector<int> order = {0, 1, 2};
    do {
      Scene scene(settings, 3);
      for (int worker : order) scene.push(worker, gradients[worker]);
      scene.settle();
      EXPECT_EQ(scene.block.version(), 1u);
      EXPECT_EQ(scene.read(0), 10.0f) << order[0] << order[1] << order[2];
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST(Block, OfAQuorumTakesTheFirstToArriveAndAddsThemUpByRank) {
  Scene scene({.kind = Gate::quorum, .quorum = 3}, 4);
  scene.push(3, -1e8f);
  scene.push(1, 1);
  scene.push(0, 1e8f);
  scene.push(2, 500);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 1u);
  EXPECT_EQ(scene.read(1), 10.0f);
  EXPECT_EQ(scene.report.applied(), 3u);
  EXPECT_EQ(scene.report.dropped, 1u);
}

TEST(Block, OfAQuorumDropsWhatComesAfterItsStep) {
  Scene scene({.kind = Gate::quorum, .quorum = 1}, 2);
  scene.push(0, 1);
  scene.settle();
  scene.push(1, 5, 0);
  scene.settle();
  EXPECT_EQ(scene.read(1), 9.0f);
  EXPECT_EQ(scene.report.dropped, 1u);
  scene.push(1, 5, 1);
  scene.settle();
  EXPECT_EQ(scene.read(1), 4.0f);
}

TEST(Block, OfSoftsyncMakesAnUpdateOfEverySoManyAndDropsNone) {
  Scene scene({.kind = Gate::softsync, .quorum = 2}, 3);
  scene.push(2, 1);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 0u);
  scene.push(0, 3);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 1u);
  EXPECT_EQ(scene.read(0), 8.0f);
  scene.push(1, 4, 0);  // on weights that are gone
  scene.push(0, 2, 1);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 2u);
  EXPECT_EQ(scene.read(1), 5.0f);
  EXPECT_EQ(scene.report.dropped, 0u);
  EXPECT_EQ(scene.report.staleness.max, 1u);
}

TEST(Block, AppliesAPushWithItsShareOfTheLearningRate) {
  for (const auto kind : {Gate::async, Gate::bsp}) {
    Scene scene({.kind = kind}, 1);
    scene.push(0, 4, 0, 0.25);
    scene.settle();
    EXPECT_EQ(scene.read(0), 9.0f);
  }
}

TEST(Block, CountsAQuorumAmongThoseWhoAreLeft) {
  Scene scene({.kind = Gate::quorum, .quorum = 3}, 3);
  scene.push(0, 2);
  scene.push(1, 4);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 0u);
  scene.block.leave(2);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 1u);
  EXPECT_EQ(scene.read(0), 7.0f);
}

TEST(Block, AppliesTheMostStaleOfThoseThatWaitFirst) {
  std::vector<int> order;
  Scene scene({.kind = Gate::async}, 3);
  scene.block.follow([&](const Block&, std::span<const Push> pushes) {
    for (const Push& push : pushes) order.push_back(push.worker);
  });
  scene.push(0, 1);
  scene.settle();
  scene.push(0, 1, 1);
  scene.push(2, 1, 0);
  scene.push(1, 1, 0);
  scene.settle();
  EXPECT_EQ(order, (std::vector<int>{0, 2, 1, 0}));
  EXPECT_EQ(scene.report.staleness.max, 2u);
  EXPECT_EQ(scene.report.staleness.histogram[0], 1u);
  EXPECT_EQ(scene.report.staleness.histogram[1], 1u);
  EXPECT_EQ(scene.report.staleness.histogram[2], 2u);
}

TEST(Block, ScalesTheRateByTheStalenessAndLeavesFreshGradientsAlone) {
  Scene scene({.kind = Gate::async}, 3, 1, {StalenessRule::Kind::scale});
  scene.push(0, 1);  // staleness 0
  scene.settle();
  EXPECT_EQ(scene.read(0), 9.0f);
  scene.push(1, 1, 0);  // 1
  scene.settle();
  EXPECT_EQ(scene.read(1), 8.0f);
  scene.push(2, 1, 0);  // 2
  scene.settle();
  EXPECT_EQ(scene.read(2), 7.5f);
}

TEST(Block, CompensatesByWhatTheWorkerHadRead) {
  Scene scene({.kind = Gate::async}, 2, 2, {StalenessRule::Kind::compensate, 0.5});
  scene.push(0, 2);
  scene.settle();
  EXPECT_EQ(scene.read(0), 8.0f);
  scene.push(1, 2, 0);  // g + 0.5 g g (8 - 10) = -2
  scene.settle();
  EXPECT_EQ(scene.read(1), 10.0f);
  scene.push(0, 1, 1);  // 1 + 0.5 (10 - 8) = 2
  scene.settle();
  EXPECT_EQ(scene.read(0), 8.0f);
}

TEST(Block, HasAWorkersClockAndTheSlowestOfThoseWhoAreThere) {
  Scene scene({.kind = Gate::async}, 3);
  scene.push(0, 0);
  scene.push(1, 0);
  scene.settle();
  scene.push(0, 0, 2);
  scene.settle();
  EXPECT_EQ(scene.block.clock(0), 2u);
  EXPECT_EQ(scene.block.clock(1), 1u);
  EXPECT_EQ(scene.block.closed(), 0u);
  scene.block.leave(2);
  EXPECT_EQ(scene.block.closed(), 1u);
  EXPECT_EQ(scene.block.active_workers(), 2);
  EXPECT_TRUE(scene.block.active(1));
  EXPECT_FALSE(scene.block.active(2));
}

TEST(Block, KnowsWhoComputesFromItsReadToItsPush) {
  Scene scene({.kind = Gate::value, .value_bound = 100}, 2);
  EXPECT_TRUE(scene.block.is_computing(0));
  scene.push(0, 1);
  EXPECT_FALSE(scene.block.is_computing(0));
  scene.settle();
  EXPECT_FALSE(scene.block.is_computing(0));
  EXPECT_EQ(scene.read(0), 9.0f);
  EXPECT_TRUE(scene.block.is_computing(0));
  EXPECT_EQ(scene.block.read_by(0)[0], 9.0f);
  EXPECT_EQ(scene.block.read_by(1)[0], 10.0f);
  scene.block.leave(0);
  EXPECT_FALSE(scene.block.is_computing(0));
  scene.read(0);
  EXPECT_FALSE(scene.block.is_computing(0)) << "it reads the final weights and computes no more";
}

TEST(Block, HoldsAPushByTheFurthestElementOfTheFurthestReader) {
  Scene scene({.kind = Gate::value, .value_bound = 3}, 3, 2);
  scene.push(0, 2);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 1u);
  EXPECT_EQ(scene.read(0), 8.0f);
  scene.push(0, 2, 1);  // 2 from what it read itself, 4 from what the others did
  scene.settle();
  EXPECT_EQ(scene.block.version(), 1u);
  EXPECT_EQ(scene.block.distance_after(0), 4.0);
  scene.block.leave(1);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 1u);
  scene.block.leave(2);
  scene.settle();
  EXPECT_EQ(scene.block.version(), 2u);
}

TEST(Block, AtAValueBoundTakesTheMostStaleOfThoseThatKeepIt) {
  std::vector<int> order;
  Scene scene({.kind = Gate::value, .value_bound = 3}, 4);
  scene.block.follow([&](const Block&, std::span<const Push> pushes) {
    for (const Push& push : pushes) order.push_back(push.worker);
  });
  scene.push(0, 0.25f);
  scene.settle();
  scene.read(0);
  scene.push(0, 0.25f, 1);
  scene.push(1, 50, 0);  // the most stale, but too large while worker 3 computes
  scene.push(2, 0.25f, 0);
  scene.settle();
  EXPECT_EQ(order, (std::vector<int>{0, 2, 0}));
  scene.block.leave(3);
  scene.settle();
  EXPECT_EQ(order, (std::vector<int>{0, 2, 0, 1}));
}

TEST(Block, AtADelayBoundLetsOnlyThoseReadWhoAreNotTooFarAhead) {
  GateSettings settings{.kind = Gate::ssp, .delay_bound = 2};
  Scene scene(settings, 2);
  const auto gate = make_gate(settings);
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(gate->may_read(scene.block, 0)) << step;
    scene.push(0, 0, step);
    EXPECT_FALSE(gate->may_read(scene.block, 0)) << "its own push is not in yet";
    scene.settle();
  }
  EXPECT_FALSE(gate->may_read(scene.block, 0)) << "three ahead";
  EXPECT_TRUE(gate->may_read(scene.block, 1));
  scene.push(1, 0, 0);
  scene.settle();
  EXPECT_TRUE(gate->may_read(scene.block, 0));
}

TEST(Block, DropsWhatAForgottenWorkerPushedAndNothingElse) {
  Scene scene({.kind = Gate::quorum, .quorum = 3}, 4);
  scene.push(0, 1);
  scene.push(1, 3);
  scene.settle();
  scene.block.forget(0);
  scene.block.leave(0);
  scene.settle();
  EXPECT_FALSE(scene.block.is_waiting(0));
  EXPECT_TRUE(scene.block.is_waiting(1));
  EXPECT_EQ(scene.report.dropped, 1u);
  scene.block.forget(2);
  EXPECT_EQ(scene.report.dropped, 1u) << "nothing of it was waiting";
}

}  // namespace
}  // namespace starling
