// Pushes and pulls in codes: in bsp beside the plain maths, to the bit; and every gate learns.
#include <gtest/gtest.h>

#include "math/vector_math.h"
#include "plan/simulated_training.h"
#include "server/keys.h"
#include "strategy/server_plan.h"
#include "tests/server/expect_all_well.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

std::vector<CodecSettings> codecs() {
  using Kind = CodecSettings::Kind;
  return {{.kind = Kind::half},
          {.kind = Kind::top_k, .share = 0.2},
          {.kind = Kind::quantized, .levels = 7, .feedback = false},
          {.kind = Kind::sign},
          {.kind = Kind::top_k, .share = 0.2, .feedback = false},
          {.kind = Kind::threshold, .threshold = 0.02, .adaptive = true, .entropy = true}};
}

SimulatedTraining coded_training(int workers, const std::string& gate, const CodecSettings& codec) {
  SimulatedTraining training;
  Settings& settings = training.settings;
  settings.strategy = StrategyKind::server;
  settings.workers = workers;
  settings.server.gate.kind = named<GateSettings::Kind>(gate);
  settings.optimizer.lr = 0.1;
  settings.optimizer.momentum = 0;
  settings.mix.codec = codec;
  training.seed = static_cast<std::uint64_t>(workers);
  training.jitter = 0.5;
  training.network.standard = {1e8, 100us};
  training.batches_per_epoch = 20 * static_cast<std::uint64_t>(workers);
  training.batches = 2 * training.batches_per_epoch;
  return training;
}

// A block, its server and all workers in one thread.
struct CodedBlock {
  CodedBlock(const SimulatedTraining& training, std::uint64_t key, Range where)
      : range(where),
        feedback(training.settings.mix.codec.feedback),
        optimizer(make_server_optimizer(training.settings.optimizer, where.size())),
        weights(where.size()) {
    CodecSettings of_pushes = training.settings.mix.codec, of_pulls = of_pushes;
    of_pulls.feedback = true;  // differences are never without
    const auto seed = static_cast<std::uint64_t>(training.settings.seed);
    for (int worker = 0; worker < training.settings.workers; ++worker) {
      const auto who = static_cast<std::uint64_t>(worker);
      pushes.push_back(make_codec(of_pushes, {Random{seed, who, key, 0}.bits(), {}}));
      pulls.push_back(make_codec(of_pulls, {Random{seed, who, key, 1}.bits(), {}}));
      residuals.emplace_back(where.size());
      told.emplace_back(where.size());
    }
  }

  void step(const SimulatedTraining& training, std::uint64_t number) {
    std::vector<float> mean(weights.size());
    std::vector<std::byte> code;
    for (std::size_t worker = 0; worker < told.size(); ++worker) {
      std::vector<float> gradient(weights.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = told[worker][i] - simulated_target(range.begin + i) +
                      simulated_noise(training, number * told.size() + worker, range.begin + i);
      }
      if (feedback) add(gradient, residuals[worker]);
      pushes[worker]->encode(gradient, code);
      residuals[worker] = gradient;
      pushes[worker]->add_decoded(code, mean);
    }
    if (told.size() > 1) scale(mean, 1.0f / static_cast<float>(told.size()));
    optimizer->update(weights, mean, 1);
    for (std::size_t worker = 0; worker < told.size(); ++worker) {
      std::vector<float> difference = weights;
      subtract_scaled(difference, told[worker], 1);
      pulls[worker]->encode(difference, code);
      pulls[worker]->add_decoded(code, told[worker]);
    }
  }

  Range range;
  bool feedback;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::unique_ptr<Codec>> pushes, pulls;
  std::vector<std::vector<float>> residuals, told;
  std::vector<float> weights;
};

TEST(CodedServers, InBspArePlainMathsToTheBit) {
  for (const CodecSettings& codec : codecs()) {
    for (int workers : {1, 2, 3, 5}) {
      for (const auto& [servers, buckets] : {std::pair{1, 1}, {2, 3}}) {
        SCOPED_TRACE(testing::Message() << name_of(codec.kind) << " feedback=" << codec.feedback
                                        << " n=" << workers << " servers=" << servers);
        SimulatedTraining training = coded_training(workers, "bsp", codec);
        training.settings.server.servers = servers;
        training.buckets = buckets;
        training.noise = 0.5;
        const SimulatedResult result = simulate(training);
        expect_all_well(result);

        std::vector<Range> ranges;
        const auto count = static_cast<std::size_t>(buckets);
        for (std::size_t i = 0; i < count; ++i) ranges.push_back(part(training.elements, count, i));
        const std::vector<Key> keys =
            cut_into_keys(training.elements, servers, ranges, largest_block(training.elements));
        std::vector<float> expected(training.elements);
        for (std::uint64_t key = 0; key < keys.size(); ++key) {
          CodedBlock block(training, key, keys[key].range);
          const std::uint64_t steps = training.batches / static_cast<std::uint64_t>(workers);
          for (std::uint64_t step = 0; step < steps; ++step) block.step(training, step);
          std::ranges::copy(block.weights,
                            expected.begin() + static_cast<std::ptrdiff_t>(block.range.begin));
        }
        for (const auto& weights : result.weights) EXPECT_EQ(weights, expected);
      }
    }
  }
}

double off_target(const std::vector<float>& weights) {
  double largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(weights[i] - simulated_target(i))));
  }
  return largest;
}

TEST(CodedServers, LearnWithEveryGateAndSendLess) {
  for (const char* gate : {"bsp", "ssp", "async", "value", "quorum", "softsync"}) {
    for (const CodecSettings& codec : codecs()) {
      if (codec.kind == CodecSettings::Kind::threshold) continue;  // learns slowly: it sends 1 %
      SCOPED_TRACE(testing::Message()
                   << gate << " " << name_of(codec.kind) << " feedback=" << codec.feedback);
      SimulatedTraining training = coded_training(4, gate, codec);
      training.elements = 400;
      training.batches = 1000;
      if (codec.kind == CodecSettings::Kind::sign) {  // what it leaves out comes late
        training.settings.optimizer.lr = 0.02;
        training.batches = 3000;
      }
      if (gate == std::string("value")) training.settings.server.gate.value_bound = 0.5;
      const SimulatedResult result = simulate(training);
      expect_all_well(result);
      for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
      EXPECT_LT(off_target(result.weights[0]), 0.1);

      SimulatedTraining raw = training;
      raw.settings.mix.codec = {};
      const SimulatedResult whole = simulate(raw);
      const double ratio = static_cast<double>(result.wire_bytes_sent[0]) /
                           static_cast<double>(whole.wire_bytes_sent[0]);
      EXPECT_LT(ratio, 0.6);
    }
  }
}

TEST(CodedServers, LearnWhateverWorkersDoBetweenPushesAndPulls) {
  const CodecSettings top_k{.kind = CodecSettings::Kind::top_k, .share = 0.2};
  const std::vector<std::pair<const char*, std::function<void(ServerSettings&)>>> ways = {
      {"push_every", [](ServerSettings& s) { s.push_every = 3; }},
      {"fetch_every", [](ServerSettings& s) { s.fetch_every = 3; }},
      {"lag", [](ServerSettings& s) { s.lag = 2; }},
      {"group", [](ServerSettings& s) { s.group = 2; }},
      {"compensate", [](ServerSettings& s) { s.staleness.kind = StalenessRule::Kind::compensate; }},
      {"on workers",
       [](ServerSettings& s) {
         s.placement = ServerSettings::Placement::workers;
         s.servers = 0;
       }},
  };
  for (const auto& [name, change] : ways) {
    SCOPED_TRACE(name);
    SimulatedTraining training = coded_training(4, "async", top_k);
    training.settings.optimizer.lr = 0.05;
    training.batches = 2400;
    change(training.settings.server);
    const SimulatedResult result = simulate(training);
    expect_all_well(result);
    for (const auto& weights : result.weights) EXPECT_EQ(weights, result.weights[0]);
    EXPECT_LT(off_target(result.weights[0]), 0.1);
  }
}

}  // namespace
}  // namespace starling
