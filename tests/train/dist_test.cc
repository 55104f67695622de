// Training through Dist on real processes.
#include "train/dist.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "base/error.h"
#include "tests/train/forked_workers.h"
#include "tests/train/model_named.h"
#include "train/batches.h"
#include "train/images.h"
#include "train/synthetic.h"

namespace starling {
namespace {

const Digits& digits() {
  static const Digits set = synthetic_digits(600, 10, 3);
  return set;
}

struct Experiment {
  Settings settings;
  std::string model = "mlp";
  std::size_t samples = 600;
  int epochs = 1;
};

// The weights after training, on every worker.
std::vector<std::vector<float>> train(const Experiment& experiment, int workers,
                                      bool finish = true) {
  torch::manual_seed(1);
  std::size_t parameters = 0;
  for (const auto& named : model_named(experiment.model).parameters) {
    parameters += static_cast<std::size_t>(named.second.numel());
  }
  return Workers::run(workers, parameters, [&](const Job& job, std::span<float> results) {
    Settings settings = experiment.settings;
    settings.workers = job.size;
    torch::manual_seed(1);
    DigitSet set = digits().train;
    set.count = experiment.samples;
    const Images images(set);
    Dist dist(model_named(experiment.model), settings, job);
    torch::optim::SGD optimizer(
        {dist.model().flat_parameter()},
        torch::optim::SGDOptions(settings.optimizer.lr).momentum(settings.optimizer.momentum));
    Batches batches(experiment.samples, job.size, settings.train.batch, 1);
    const auto steps = static_cast<std::uint64_t>(experiment.epochs) * batches.steps_per_epoch();
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto batch = batches.batch(step, job.rank);
      if (!batch.indices.empty()) {
        const auto [pixels, labels] = images.pick(batch.indices);
        const double weight = static_cast<double>(batch.indices.size()) * job.size /
                              static_cast<double>(batch.samples_of_all);
        auto loss =
            torch::nn::functional::cross_entropy(dist.model().model().forward(pixels), labels);
        (loss * weight).backward();
      }
      dist.step(optimizer);
    }
    if (finish) dist.finish();
    std::ranges::copy(dist.model().replica().weights, results.begin());
  });
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

TEST(Dist, AllreduceOfNWorkersFollowsOneWorkerWithABatchNTimesAsLarge) {
  Experiment experiment;
  experiment.settings.strategy = StrategyKind::allreduce;
  experiment.samples = 590;  // the last batch is uneven
  experiment.epochs = 3;
  experiment.settings.train.batch = 64;
  const auto one = train(experiment, 1);
  for (int workers : {2, 4}) {
    experiment.settings.train.batch = 64 / workers;
    const auto many = train(experiment, workers);
    for (const auto& weights : many) EXPECT_EQ(weights, many[0]) << workers;
    EXPECT_LT(largest_difference(many[0], one[0]), 2e-5) << workers;
  }
}

// The test above would also pass if nothing was learned or exchanged; this one shows that it could
// fail.
TEST(Dist, WithoutExchangeWorkersPartFromTheSingleOne) {
  Experiment experiment;
  experiment.settings.strategy = StrategyKind::single;
  experiment.settings.train.batch = 16;
  const auto many = train(experiment, 4, false);
  experiment.settings.train.batch = 64;
  const auto one = train(experiment, 1);
  EXPECT_GT(largest_difference(many[0], one[0]), 1e-3);
  EXPECT_GT(largest_difference(many[0], many[1]), 1e-3);
}

TEST(Dist, GivesTheSameWeightsWhateverTheBuckets) {
  Experiment experiment;
  experiment.settings.strategy = StrategyKind::allreduce;
  experiment.settings.train.batch = 20;
  experiment.settings.bucket_kb = 1'000'000;
  const auto one_bucket = train(experiment, 3);
  experiment.settings.bucket_kb = 1;  // every tensor its own
  const auto many_buckets = train(experiment, 3);
  // Other chunks, another order of adding: equal to rounding.
  EXPECT_LT(largest_difference(one_bucket[0], many_buckets[0]), 1e-5);
  EXPECT_EQ(many_buckets[0], many_buckets[2]);
}

// Both workers have the same gradient, so whoever clips it, where and how often, must come to the
// same: a step as long as the bound, in its direction.
TEST(Dist, ClipsAGradientThatIsTooLong) {
  const auto moved = [](StrategyKind strategy, double clip) {
    return Workers::run(2, 1, [=](const Job& job, std::span<float> results) {
      Settings settings;
      settings.strategy = strategy;
      settings.workers = 2;
      settings.server.placement = ServerSettings::Placement::workers;
      settings.optimizer = {.lr = 1, .clip = clip};
      torch::manual_seed(1);
      Dist dist(model_named("mlp"), settings, job);
      torch::optim::SGD optimizer({dist.model().flat_parameter()}, 1);
      const torch::Tensor before = dist.model().weights().clone();
      dist.model().model().forward(torch::ones({1, 1, 28, 28})).sum().backward();
      dist.step(optimizer);
      dist.finish();
      results[0] = (dist.model().weights() - before).norm().item<float>();
    });
  };
  for (const StrategyKind strategy :
       {StrategyKind::allreduce, StrategyKind::local, StrategyKind::server}) {
    for (const auto& each : moved(strategy, 0.01)) EXPECT_NEAR(each[0], 0.01f, 1e-5f) << strategy;
    for (const auto& each : moved(strategy, 1e6)) {
      EXPECT_GT(each[0], 1.0f) << strategy << ": one that is short enough stays as it is";
    }
  }
}

TEST(Dist, ClipsTheMeanOfThoseWhoHaveData) {
  const auto moved = Workers::run(2, 1, [](const Job& job, std::span<float> results) {
    Settings settings;
    settings.strategy = StrategyKind::allreduce;
    settings.workers = 2;
    settings.optimizer = {.lr = 1, .clip = 0.01};
    torch::manual_seed(1);
    Dist dist(model_named("mlp"), settings, job);
    torch::optim::SGD optimizer({dist.model().flat_parameter()}, 1);
    const torch::Tensor before = dist.model().weights().clone();
    dist.expect_uneven_inputs();
    if (job.rank == 0) {
      dist.model().model().forward(torch::ones({1, 1, 28, 28})).sum().backward();
      dist.step(optimizer);
    }
    dist.join(optimizer);
    dist.finish();
    results[0] = (dist.model().weights() - before).norm().item<float>();
  });
  for (const auto& each : moved) EXPECT_NEAR(each[0], 0.01f, 1e-5f);
}

TEST(Dist, SendsGradientsWhileTheBackwardPassGoesOn) {
  const auto sent = Workers::run(2, 2, [](const Job& job, std::span<float> results) {
    Settings settings;
    settings.strategy = StrategyKind::allreduce;
    settings.exchange = "ring";  // in which nobody waits before it sends
    settings.workers = 2;
    settings.bucket_kb = 1;
    Dist dist(model_named("mlp"), settings, job);
    torch::optim::SGD optimizer({dist.model().flat_parameter()}, 0.1);
    const auto gradients_sent = [&] {
      return static_cast<float>(
          dist.comm().ledger().total(Direction::sent, Purpose::gradients).payload);
    };
    dist.model().model().forward(torch::ones({1, 1, 28, 28})).sum().backward();
    results[0] = gradients_sent();
    dist.step(optimizer);
    results[1] = gradients_sent();
  });
  for (const auto& worker : sent) {
    EXPECT_GT(worker[0], 0) << "nothing was sent before backward() returned";
    EXPECT_EQ(worker[1], 4 * 101'770);  // 2 (n-1)/n |w| = |w| with two workers
  }
}

TEST(Dist, RepeatsEverySyncStrategyBitForBit) {
  for (const char* strategy : {"allreduce", "pairwise", "exponential", "local"}) {
    Experiment experiment;
    experiment.settings.strategy = named<StrategyKind>(strategy);
    experiment.settings.train.batch = 16;
    if (std::string(strategy) == "local") experiment.settings.schedule.period = 4;
    EXPECT_EQ(train(experiment, 3), train(experiment, 3)) << strategy;
  }
}

TEST(Dist, SumsTheGradientsOfSeveralBackwardPasses) {
  // Passes with their gradients summed are one pass over as many samples with a larger learning
  // rate.
  Experiment experiment;
  experiment.samples = 576;
  experiment.settings.strategy = StrategyKind::allreduce;
  experiment.settings.optimizer.momentum = 0;
  experiment.settings.train.batch = 96;
  experiment.settings.optimizer.lr = 0.1;
  const auto once = train(experiment, 1);
  for (int workers : {1, 2, 4}) {
    for (int passes : {2, 3}) {
      experiment.settings.train.batch = 96 / workers / passes;
      experiment.settings.optimizer.lr = 0.1 / passes;
      experiment.settings.backward_passes = passes;
      const auto often = train(experiment, workers);
      for (const auto& weights : often) {
        EXPECT_LT(largest_difference(weights, once[0]), 1e-5) << workers << " x " << passes;
      }
    }
  }
}

TEST(Dist, ServesOthersInItsEarlyPasses) {
  const Shared<std::atomic<bool>> served;
  Workers::run(2, 1, [&](const Job& job, std::span<float>) {
    Settings settings;
    settings.strategy = StrategyKind::server;
    settings.server.servers = 1;
    settings.server.placement = ServerSettings::Placement::workers;
    settings.server.gate.kind = GateSettings::Kind::async;
    settings.workers = 2;
    settings.backward_passes = 2;
    torch::nn::Linear layer(3, 2);
    Dist dist(model_of(*layer), settings, job);
    torch::optim::SGD optimizer(layer->parameters(), 1.0);
    const auto pass = [&] { layer(torch::ones({1, 3})).sum().backward(); };
    if (job.rank == 1) {
      for (int i = 0; i < 2; ++i) {
        pass();
        dist.step(optimizer);
      }
      *served = true;
    } else {  // whose server rank 1 needs for its step
      const Time limit = dist.loop().now() + std::chrono::seconds(20);
      while (!*served && dist.loop().now() < limit) pass();
      if (!*served) throw std::runtime_error("rank 1 was not served meanwhile");
      dist.step(optimizer);
      pass();
      dist.step(optimizer);
    }
    dist.finish();
  });
}

TEST(Dist, ASecondBackwardIsAnErrorOnceTheGradientsAreUnderWay) {
  Workers::run(2, 1, [](const Job& job, std::span<float>) {
    Settings settings;
    settings.strategy = StrategyKind::allreduce;
    settings.workers = 2;
    torch::nn::Linear layer(3, 2);
    Dist dist(model_of(*layer), settings, job);
    const torch::Tensor loss = layer(torch::ones({1, 3})).sum();
    loss.backward({}, true);
    std::string error;
    try {
      loss.backward();
    } catch (const Error& caught) {
      error = caught.what();
    }
    if (error.find("a second backward() in a step changed the gradient of ") != 0 ||
        error.find("--backward-passes") == std::string::npos) {
      throw std::runtime_error("unexpected: '" + error + "'");
    }
  });
}

// Two losses on different layers, and a layer that two losses share before all of its bucket is
// there, add up as they would on one worker; and a layer that one loss uses twice counts once.
TEST(Dist, SeveralBackwardsBeforeAnythingIsSentAddUp) {
  struct Net : torch::nn::Module {
    torch::nn::Linear first{register_module("first", torch::nn::Linear(2, 2))};
    torch::nn::Linear second{register_module("second", torch::nn::Linear(2, 2))};
  };
  Workers::run(2, 1, [](const Job& job, std::span<float>) {
    Settings settings;
    settings.strategy = StrategyKind::allreduce;
    settings.workers = 2;
    Net net;
    Dist dist(model_of(net), settings, job);  // one bucket
    torch::optim::SGD optimizer(net.parameters(), 1.0);
    for (int step = 0; step < 2; ++step) {
      const torch::Tensor first = net.first->weight.detach().clone();
      const torch::Tensor second = net.second->bias.detach().clone();
      const torch::Tensor x = torch::ones({1, 2}) * (job.rank == 0 ? 1.0 : 3.0);
      net.first(x).sum().backward();
      net.first(x).sum().backward();
      (net.second(x) + net.second(x)).sum().backward();
      dist.step(optimizer);
      if (!torch::allclose(net.first->weight.detach(), first - 4) ||
          !torch::allclose(net.second->bias.detach(), second - 2)) {
        throw std::runtime_error("wrong step");
      }
    }
  });
}

TEST(Dist, UnevenShardsDoNotHang) {
  for (const char* strategy : {"allreduce", "pairwise"}) {
    Experiment experiment;
    experiment.settings.strategy = named<StrategyKind>(strategy);
    experiment.settings.train.batch = 7;
    experiment.samples = 43;  // 2 samples for 3 workers at the end
    EXPECT_EQ(train(experiment, 3).size(), 3u);
  }
}

TEST(Dist, TakesBackGradientsThatAUserCutLoose) {
  Workers::run(2, 1, [](const Job& job, std::span<float>) {
    Settings settings;
    settings.strategy = StrategyKind::allreduce;
    settings.workers = 2;
    torch::nn::Linear layer(3, 2);
    Dist dist(model_of(*layer), settings, job);
    torch::optim::SGD optimizer(layer->parameters(), 1.0);
    for (int step = 0; step < 3; ++step) {
      for (auto& parameter : layer->parameters()) parameter.mutable_grad() = torch::Tensor();
      const torch::Tensor before = layer->weight.detach().clone();
      (layer(torch::ones({1, 3})).sum() * (job.rank == 0 ? 1.0 : 3.0)).backward();
      dist.step(optimizer);
      // The gradients are 1 and 3, so all weights move by their mean, 2.
      if (!torch::allclose(layer->weight.detach(), before - 2))
        throw std::runtime_error("wrong step");
    }
  });
}

Dist dist_of(const Job& job, StrategyKind strategy = StrategyKind::allreduce) {
  Settings settings;
  settings.strategy = strategy;
  settings.workers = job.size;
  torch::manual_seed(1);
  return Dist(model_named("mlp"), settings, job);
}

TEST(Dist, FormsMeansAndBroadcasts) {
  const auto all = Workers::run(3, 12, [](const Job& job, std::span<float> results) {
    Dist dist = dist_of(job);
    results[0] = static_cast<float>(dist.mean(job.rank));
    const std::vector<double> several = dist.mean({job.rank * 2.0, 5.0});
    results[1] = static_cast<float>(several[0]);
    results[2] = static_cast<float>(several[1]);
    torch::Tensor whole = torch::arange(3, torch::kInt64) + 100 * job.rank;
    dist.broadcast(whole, 2);
    torch::Tensor every_other = torch::full({6}, job.rank, torch::kFloat).slice(0, 0, 6, 2);
    dist.broadcast(every_other);
    for (int i = 0; i < 3; ++i) {
      results[static_cast<std::size_t>(3 + i)] = whole[i].item<float>();
      results[static_cast<std::size_t>(6 + i)] = every_other[i].item<float>();
    }
    dist.barrier();
    dist.finish();
    EXPECT_THROW(dist.broadcast(whole, 3), Error);
  });
  for (const auto& results : all) {
    EXPECT_EQ(results, (std::vector<float>{1, 2, 5, 200, 201, 202, 0, 0, 0, 0, 0, 0}));
  }
}

// Nobody is through before the last one has come.
TEST(Dist, HoldsEverybodyAtABarrier) {
  Shared<std::atomic<int>> came;
  const auto seen = Workers::run(3, 1, [&](const Job& job, std::span<float> results) {
    Dist dist = dist_of(job);
    std::this_thread::sleep_for(std::chrono::milliseconds(job.rank * 100));
    ++*came;
    dist.barrier();
    results[0] = static_cast<float>(*came);
    dist.finish();
  });
  for (const auto& results : seen) EXPECT_EQ(results[0], 3);
}

TEST(Dist, SharesOutAllSamplesEvenlyInAnOrderOfTheEpoch) {
  const auto all = Workers::run(3, 8, [](const Job& job, std::span<float> results) {
    Dist dist = dist_of(job);
    auto sampler = dist.sampler(10);
    std::size_t at = 0;
    for (const std::size_t epoch : {0, 1}) {
      sampler.set_epoch(epoch);
      sampler.reset();
      while (const auto batch = sampler.next(3)) {
        for (const std::size_t sample : *batch) results[at++] = static_cast<float>(sample);
      }
    }
    EXPECT_EQ(at, 8u);
    dist.finish();
  });
  for (const std::size_t epoch : {0, 1}) {
    std::set<float> seen;
    for (const auto& results : all) {
      const auto begin = results.begin() + static_cast<std::ptrdiff_t>(4 * epoch);
      seen.insert(begin, begin + 4);
    }
    EXPECT_EQ(seen.size(), 10u) << epoch;
    EXPECT_EQ(*seen.rbegin(), 9) << epoch;
  }
  EXPECT_FALSE(std::equal(all[0].begin(), all[0].begin() + 4, all[0].begin() + 4));
}

// Worker r's gradients are all kSlope[r]; worker 1 has two batches, the others have five. Returns how
// far the first weight of each has moved.
std::vector<std::vector<float>> run_out(StrategyKind strategy) {
  constexpr std::array kSlope{1.0, 10.0, 4.0};
  return Workers::run(3, 2, [&](const Job& job, std::span<float> results) {
    Dist dist = dist_of(job, strategy);
    torch::optim::SGD optimizer({dist.model().flat_parameter()}, torch::optim::SGDOptions(1));
    const float before = dist.model().replica().weights[0];
    dist.expect_uneven_inputs();
    for (int batch = 0; batch < (job.rank == 1 ? 2 : 5); ++batch) {
      torch::Tensor loss = torch::zeros({});
      for (const auto& [name, parameter] : dist.model().model().parameters) {
        loss = loss + parameter.sum() * kSlope[static_cast<std::size_t>(job.rank)];
      }
      loss.backward();
      dist.step(optimizer);
    }
    dist.join(optimizer);
    results[0] = before - dist.model().replica().weights[0];
    dist.finish();
    results[1] = before - dist.model().replica().weights[0];
  });
}

TEST(Dist, AveragesGradientsOverThoseWhoHaveDataLeft) {
  for (const auto& moved : run_out(StrategyKind::allreduce)) {
    EXPECT_NEAR(moved[0], 2 * 5.0 + 3 * 2.5, 1e-4);  // also where the data ended
    EXPECT_NEAR(moved[1], 2 * 5.0 + 3 * 2.5, 1e-4);
  }
}

TEST(Dist, KeepsMixingTheModelOfWhoHasNoDataLeft) {
  const auto all = run_out(StrategyKind::pairwise);
  for (const auto& moved : all) EXPECT_NEAR(moved[1], (5 * 1 + 2 * 10 + 5 * 4) / 3.0, 1e-4);
  EXPECT_GT(std::abs(all[1][0] - all[0][0]), 0.1);  // they had not agreed before
}

TEST(Dist, JoinsOnlyThoseWhoSaidThatTheyWould) {
  Workers::run(2, 1, [](const Job& job, std::span<float>) {
    Dist dist = dist_of(job);
    torch::optim::SGD optimizer({dist.model().flat_parameter()}, torch::optim::SGDOptions(1));
    EXPECT_THROW(dist.join(optimizer), Error);
    dist.finish();
  });
}

}  // namespace
}  // namespace starling
