// What a worker does around a step with parameter servers, beside the plain maths of one worker,
// whose order of events is known; and beside a server that answers as the test wants.
#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <optional>

#include "base/error.h"
#include "plan/simulated_training.h"
#include "server/messages.h"
#include "sim/cluster.h"
#include "strategy/strategy.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

SimulatedTraining one_worker(int servers, int buckets, std::uint64_t steps) {
  SimulatedTraining training;
  training.settings.strategy = StrategyKind::server;
  training.settings.server.gate.kind = GateSettings::Kind::async;
  training.settings.workers = 1;
  training.settings.server.servers = servers;
  training.settings.optimizer.lr = 0.1;
  training.settings.optimizer.momentum = 0;
  training.elements = 60;
  training.buckets = buckets;
  training.noise = 0.5;
  training.batches = training.batches_per_epoch = steps;
  return training;
}

double gradient_at(const SimulatedTraining& training, double weight, std::uint64_t step,
                   std::size_t i) {
  return weight - static_cast<double>(simulated_target(i)) +
         static_cast<double>(simulated_noise(training, step, i));
}

void expect_weights(const SimulatedTraining& training, const std::vector<double>& expected,
                    const SimulatedResult& result) {
  for (const std::exception_ptr& error : result.errors) {
    EXPECT_NO_THROW(if (error) std::rethrow_exception(error));
  }
  for (std::size_t i = 0; i < training.elements; ++i) {
    ASSERT_NEAR(result.weights[0][i], expected[i], 1e-5) << i;
  }
}

TEST(PushAndFetch, SeldomIsEverySumOnceAtTheServerAndOwnStepsMeanwhile) {
  for (int push_every : {1, 2, 3}) {
    for (int fetch_every : {1, 2, 5}) {
      for (int servers : {1, 3}) {
        for (int buckets : {1, 4}) {
          SCOPED_TRACE(testing::Message() << "push " << push_every << " fetch " << fetch_every
                                          << " servers " << servers << " buckets " << buckets);
          SimulatedTraining training = one_worker(servers, buckets, 31);
          training.settings.server.push_every = push_every;
          training.settings.server.fetch_every = fetch_every;
          std::vector<double> at_server(training.elements);
          for (std::size_t i = 0; i < training.elements; ++i) {
            double own = 0, sum = 0;
            for (std::uint64_t step = 0; step < training.batches; ++step) {
              const double gradient = gradient_at(training, own, step, i);
              own -= training.settings.optimizer.lr * gradient;
              sum += gradient;
              if ((step + 1) % static_cast<std::uint64_t>(push_every) == 0) {
                at_server[i] -= training.settings.optimizer.lr * sum;
                sum = 0;
              }
              if ((step + 1) % static_cast<std::uint64_t>(fetch_every) == 0) own = at_server[i];
            }
          }
          expect_weights(training, at_server, simulate(training));
        }
      }
    }
  }
}

TEST(Lag, ComputesOnTheWeightsOfSoManyStepsAgoAndSaysSo) {
  for (int lag : {1, 2, 3}) {
    for (int servers : {1, 3}) {
      for (int buckets : {1, 4}) {
        SCOPED_TRACE(testing::Message()
                     << "lag " << lag << " servers " << servers << " buckets " << buckets);
        SimulatedTraining training = one_worker(servers, buckets, 20);
        training.settings.server.lag = lag;
        const auto behind = static_cast<std::uint64_t>(lag);
        std::vector<double> expected(training.elements);
        for (std::size_t i = 0; i < training.elements; ++i) {
          std::vector<double> versions = {0};
          for (std::uint64_t step = 0; step < training.batches; ++step) {
            const double read = versions[step < behind ? 0 : step - behind];
            versions.push_back(versions.back() - training.settings.optimizer.lr *
                                                     gradient_at(training, read, step, i));
          }
          expected[i] = versions.back();
        }
        const SimulatedResult result = simulate(training);
        expect_weights(training, expected, result);
        const std::uint64_t blocks = result.server->updates / training.batches;
        for (std::uint64_t delay = 0; delay < behind; ++delay) {
          EXPECT_EQ(result.server->staleness.histogram[delay], blocks) << "as the pipeline fills";
        }
        EXPECT_EQ(result.server->staleness.histogram[behind], blocks * (training.batches - behind));
      }
    }
  }
}

// A server of two blocks, one weight each, that takes pushes and applies nothing: what it sends is
// what the test says.
struct FakeServer {
  Group group;
  std::vector<WeightsHeader> eager;  // sent after the push of each step, if it has a version
  float eager_weight = 7;
  float pulled_weight = 3;
  WeightsHeader pulled = {};
  std::vector<std::vector<std::uint64_t>> pushed = {{}, {}};  // the versions that gradients name
  std::vector<int> pulls = {0, 0};

  Task<> greet() {
    ControlRequest hello;
    std::vector<KeyInfo> keys(2);
    co_await group.receive(0, kRequestChannel, object_bytes(hello),
                           writable_bytes(std::span(keys)));
  }

  Task<> serve(std::uint64_t key) {
    struct Value : Lender {
      std::optional<Bytes> lend(std::size_t bytes) override {
        return object_bytes(value).first(bytes);
      }
      float value = 0;
    } value;
    while (true) {
      KeyRequest request;
      co_await group.receive(0, request_channel(key), object_bytes(request), sizeof(float), value);
      if (request.flags & KeyRequest::kPush) {
        pushed[key].push_back(request.version);
        co_await send_eager(key, request.clock);
      }
      if (request.flags & KeyRequest::kPull) {
        ++pulls[key];
        co_await group.send(0, pull_channel(key), object_bytes(pulled),
                            object_bytes(pulled_weight));
      }
    }
  }

  Task<> send_eager(std::uint64_t key, std::uint64_t step) {
    if (step >= eager.size() || eager[step].version == 0) co_return;
    co_await group.send(0, eager_channel(key), object_bytes(eager[step]),
                        object_bytes(eager_weight));
  }
};

class EagerWorker {
 public:
  explicit EagerWorker(int delay_bound, std::vector<WeightsHeader> eager)
      : server{apart(cluster_.comm(1), GroupNumber::serving), std::move(eager)} {
    Settings settings;
    settings.strategy = StrategyKind::server;
    settings.server.gate.kind = GateSettings::Kind::ssp;
    settings.server.gate.delay_bound = delay_bound;
    settings.workers = 1;
    settings.server.eager = true;
    settings.optimizer.lr = 1;
    settings.optimizer.momentum = 0;
    check_settings(settings);
    Workload workload;
    workload.buckets = {{0, 1}, {1, 2}};
    strategy_ = make_strategy(settings, cluster_.comm(0), workload);
    greeting_.emplace(server.greet());
    for (std::uint64_t key : {0, 1}) serving_.emplace_back(server.serve(key));
    cluster_.loop().run(strategy_->start({weights, gradients_}));
    server.pulls = {0, 0};
  }

  // One step with gradient 1: the weights after it.
  std::vector<float> step() {
    cluster_.loop().run(whole_step());
    return weights;
  }

 private:
  Cluster cluster_{2};

 public:
  FakeServer server;
  std::vector<float> weights = {10, 10};

 private:
  Task<> whole_step() {
    gradients_ = {1, 1};
    for (int i : {0, 1}) {
      const auto at = static_cast<std::size_t>(i);
      co_await strategy_->after_backward({i,
                                          {at, at + 1},
                                          std::span(gradients_).subspan(at, 1),
                                          std::span(weights).subspan(at, 1)});
    }
    co_await sleep_until(cluster_.loop(), cluster_.loop().now() + 1s);  // the eager ones arrive
    co_await strategy_->after_update({weights, gradients_});
  }

  std::vector<float> gradients_ = {0, 0};
  std::unique_ptr<Strategy> strategy_;
  std::optional<Running> greeting_;
  std::list<Running> serving_;
};

using Floats = std::vector<float>;

TEST(EagerWeights, AreTakenIfAllOwnPushesAreInThem) {
  EagerWorker worker(9, {{5, 1, 1}});
  EXPECT_EQ(worker.step(), (Floats{7, 7}));
  EXPECT_EQ(worker.step(), (Floats{6, 6})) << "its own step, for want of news";
  EXPECT_EQ(worker.server.pushed[0], (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(worker.server.pushed[1], (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(worker.server.pulls, (std::vector<int>{0, 0}));
}

TEST(EagerWeights, AreLeftIfAnOwnPushIsNotInThem) {
  EagerWorker worker(9, {{5, 0, 0}, {6, 1, 1}, {7, 3, 2}});
  EXPECT_EQ(worker.step(), (Floats{2, 2}));
  EXPECT_EQ(worker.step(), (Floats{1, 1}));
  EXPECT_EQ(worker.step(), (Floats{7, 7}));
  EXPECT_EQ(worker.server.pushed[0], (std::vector<std::uint64_t>{0, 0, 0}));
}

TEST(EagerWeights, AreAskedForOnlyWhenOthersPushesAreMissingBeyondTheBound) {
  EagerWorker worker(2, {{5, 1, 1}});
  worker.server.pulled = {9, 4, 4};
  worker.step();  // everybody's first push is in what it has
  worker.step();
  worker.step();
  EXPECT_EQ(worker.server.pulls, (std::vector<int>{0, 0})) << "two behind";
  EXPECT_EQ(worker.step(), (Floats{3, 3})) << "three behind";
  EXPECT_EQ(worker.server.pulls, (std::vector<int>{1, 1}));
  worker.step();
  EXPECT_EQ(worker.server.pulls, (std::vector<int>{1, 1}));
  EXPECT_EQ(worker.server.pushed[1].back(), 9u);
}

}  // namespace
}  // namespace starling
