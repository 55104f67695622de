// A pipeline beside one process with the same batch: the same loss and the same weights, to float
// rounding, after several steps.
#include "parallel/stage.h"

#include <gtest/gtest.h>
#include <torch/optim.h>

#include <map>

#include "sim/cluster.h"
#include "train/blueprint.h"
#include "train/loss.h"
#include "train/tied.h"

namespace starling {
namespace {

constexpr int kSteps = 3;
constexpr double kRate = 0.1;

Blueprint layers_of(const std::string& model, int classes) {
  TrainSettings settings;
  settings.model = model;
  settings.network = {.layers = 2, .width = 16, .heads = 2, .context = 6};
  return *find_blueprint(settings, classes);
}

DataSet::Batch batch_of(bool text, int step, std::int64_t samples) {
  torch::manual_seed(100 + step);
  if (text) {
    return {torch::randint(9, {samples, 6}, torch::kLong),
            torch::randint(9, {samples, 6}, torch::kLong)};
  }
  return {torch::randn({samples, 1, 28, 28}), torch::randint(10, {samples}, torch::kLong)};
}

void descend(const Model& model) {
  const torch::NoGradGuard no_gradients;
  for (const auto& named : model.parameters) {
    torch::Tensor parameter = named.second;
    parameter.sub_(parameter.grad(), kRate);
    parameter.mutable_grad() = torch::Tensor();
  }
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, torch::Tensor> weights;
};

Outcome one_process(const Blueprint& layers, bool text, std::int64_t samples) {
  torch::manual_seed(1);
  const Model model = make_stage(layers, layers.all());
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    const auto [inputs, targets] = batch_of(text, step, samples);
    const torch::Tensor loss = cross_entropy(model.forward(inputs), targets);
    loss.backward();
    outcome.losses.push_back(loss.item<double>());
    descend(model);
  }
  for (const auto& [name, tensor] : model.parameters) outcome.weights[name] = tensor;
  return outcome;
}

struct Rank {
  const Blueprint& layers;
  bool text;
  std::int64_t samples;
  Stage::Options options;
  std::vector<Model>& models;
  std::vector<double>& losses;
  int& passes;
};

Task<> train(Comm& comm, Rank rank) {
  const auto stages = static_cast<std::size_t>(comm.size());
  const auto stage = static_cast<std::size_t>(comm.rank());
  torch::manual_seed(1);
  Model& model = rank.models[stage];
  model = make_stage(rank.layers, part(rank.layers.layers.size(), stages, stage));
  Stage pipeline(comm, model, rank.options);
  for (int step = 0; step < kSteps; ++step) {
    const DataSet::Batch batch = batch_of(rank.text, step, rank.samples);
    Task<double> learning = pipeline.learn(batch, 1, [&rank] { ++rank.passes; });
    const double loss = co_await learning;
    if (pipeline.last()) rank.losses.push_back(loss);
    if (model.tied) {
      Task<> tying = add_tied_gradients(tied_pair(comm), model);
      co_await tying;
    }
    descend(model);
  }
}

class StageOracle : public testing::TestWithParam<std::tuple<PipelineSchedule, bool>> {};

TEST_P(StageOracle, LearnsWhatOneProcessLearns) {
  const auto [schedule, recompute] = GetParam();
  for (const std::string name : {"cnn3", "char-gpt"}) {
    const bool text = name == "char-gpt";
    const Blueprint layers = layers_of(name, text ? 9 : 10);
    for (const std::int64_t samples : {1, 7, 8}) {
      const Outcome oracle = one_process(layers, text, samples);
      for (int p = 1; p <= 4; ++p) {
        for (const int m : {1, 2, 3, 5, 8}) {
          const std::string what =
              fmt::format("{}, {} samples, {} stages, {} micro-batches", name, samples, p, m);
          std::vector<Model> models(static_cast<std::size_t>(p));
          std::vector<double> losses;
          int passes = 0;
          Cluster cluster(p);
          cluster.run([&](Comm& comm) {
            return train(comm,
                         {layers, text, samples, {schedule, m, recompute}, models, losses, passes});
          });
          EXPECT_EQ(passes, kSteps * m * p) << what;
          ASSERT_EQ(losses.size(), oracle.losses.size()) << what;
          for (std::size_t i = 0; i < losses.size(); ++i) {
            EXPECT_NEAR(losses[i], oracle.losses[i], 1e-5) << what << ", step " << i;
          }
          for (const Model& model : models) {
            for (const auto& [of, tensor] : model.parameters) {
              const bool tied = layers.tie && of == layers.tie->second;
              const torch::Tensor& weights = oracle.weights.at(tied ? layers.tie->first : of);
              EXPECT_TRUE(torch::allclose(tensor, weights, 1e-4, 1e-5))
                  << what << ", " << of << " is off by "
                  << (tensor - weights).abs().max().item<float>();
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StageOracle,
                         testing::Combine(testing::Values(PipelineSchedule::naive,
                                                          PipelineSchedule::gpipe,
                                                          PipelineSchedule::one_f_one_b),
                                          testing::Bool()),
                         [](const auto& of) {
                           return fmt::format("{}{}",
                                              std::get<0>(of.param) == PipelineSchedule::one_f_one_b
                                                  ? "OneForwardOneBackward"
                                                  : name_of(std::get<0>(of.param)),
                                              std::get<1>(of.param) ? "Recomputing" : "");
                         });

}  // namespace
}  // namespace starling
