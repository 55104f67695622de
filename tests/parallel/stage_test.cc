// A pipeline beside one process with the same batch: the same loss and the same weights, to float
// rounding, after several steps.
#include "parallel/stage.h"

#include <gtest/gtest.h>
#include <torch/optim.h>

#include <map>

#include "exchange/allreduce.h"
#include "parallel/split_kit.h"
#include "sim/cluster.h"
#include "strategy/grid.h"
#include "tests/parallel/sharing.h"
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
  settings.network = {.layers = 2, .width = 24, .heads = 6, .context = 6};
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

// What one rank of a grid does: copies of the network learn from shares of the batch, and average their
// gradients.
struct Rank {
  const Blueprint& layers;
  Settings grid;
  bool text;
  std::int64_t samples;
  std::vector<Model>& models;
  std::vector<double>& losses;  // of the first copy
  int& passes;
};

void average_gradients(Group group, const Model& model) {
  for (const auto& named : model.parameters) {
    group.loop().run(allreduce(find_allreduce("ring"), group, {0, Purpose::gradients},
                               vector_of(named.second.grad()), Reduction::mean));
  }
}

void train(Comm& comm, Rank rank) {
  const Place place = place_of(rank.grid, comm.rank());
  const ParallelSettings& parallel = rank.grid.parallel;
  const auto copies = static_cast<std::size_t>(rank.grid.copies());
  const Group copies_of_slice = slice_workers(rank.grid, comm, GroupNumber::training);
  torch::manual_seed(1);
  Model& model = rank.models[static_cast<std::size_t>(comm.rank())];
  const Range layers = part(rank.layers.layers.size(), static_cast<std::size_t>(parallel.pipeline),
                            static_cast<std::size_t>(place.stage));
  const SplitKit split{TensorGroup(part_group(rank.grid, comm))};
  model = parallel.tensor > 1 ? make_stage(rank.layers, layers, split)
                              : make_stage(rank.layers, layers);
  const Group stages = stage_group(rank.grid, comm);
  Stage::Options options{parallel.schedule, parallel.micro_batches, parallel.recompute};
  options.wait = [&comm](const char*, Task<> task) { comm.loop().run(std::move(task)); };
  Stage stage(stages, model, options);
  for (int step = 0; step < kSteps; ++step) {
    const DataSet::Batch all = batch_of(rank.text, step, rank.samples);
    const Range mine =
        part(static_cast<std::size_t>(rank.samples), copies, static_cast<std::size_t>(place.copy));
    const auto begin = static_cast<std::int64_t>(mine.begin);
    const auto size = static_cast<std::int64_t>(mine.size());
    const double weight =
        static_cast<double>(mine.size() * copies) / static_cast<double>(rank.samples);
    const double loss =
        stage.learn({all.inputs.narrow(0, begin, size), all.targets.narrow(0, begin, size)}, weight,
                    [&rank] { ++rank.passes; });
    if (stage.last() && place.copy == 0 && place.part == 0) rank.losses.push_back(loss);
    if (model.tied) comm.loop().run(add_tied_gradients(tied_pair(stages), model));
    if (copies > 1) average_gradients(copies_of_slice, model);
    descend(model);
  }
}

struct Learned {
  std::vector<Model> models;
  std::vector<double> losses;
  int passes = 0;
};

Learned learn(const Blueprint& layers, const Settings& grid, bool text, std::int64_t samples) {
  Learned learned;
  learned.models.resize(static_cast<std::size_t>(grid.workers));
  Cluster cluster(grid.workers);
  cluster.run(with_own_random(grid.workers, [&](Comm& comm) {
    train(comm, {layers, grid, text, samples, learned.models, learned.losses, learned.passes});
  }));
  return learned;
}

void expect_weights(const Learned& learned, const Outcome& oracle, const Blueprint& layers,
                    const std::string& what) {
  for (const Model& model : learned.models) {
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      const auto& [of, tensor] = model.parameters[i];
      const bool tied = layers.tie && of == layers.tie->second;
      torch::Tensor weights = oracle.weights.at(tied ? layers.tie->first : of);
      if (const auto slice = model.slices.find(i); slice != model.slices.end()) {
        weights = slice->second.take(weights);
      }
      EXPECT_TRUE(torch::allclose(tensor, weights, 1e-4, 1e-5))
          << what << ", " << of << " is off by " << (tensor - weights).abs().max().item<float>();
    }
  }
}

Settings grid_of(int copies, int stages, int parts, int micro_batches) {
  Settings grid;
  grid.parallel.pipeline = stages;
  grid.parallel.tensor = parts;
  grid.parallel.micro_batches = micro_batches;
  grid.workers = copies * stages * parts;
  return grid;
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
          Settings grid = grid_of(1, p, 1, m);
          grid.parallel.schedule = schedule;
          grid.parallel.recompute = recompute;
          const Learned learned = learn(layers, grid, text, samples);
          EXPECT_EQ(learned.passes, kSteps * m * p) << what;
          ASSERT_EQ(learned.losses.size(), oracle.losses.size()) << what;
          for (std::size_t i = 0; i < learned.losses.size(); ++i) {
            EXPECT_NEAR(learned.losses[i], oracle.losses[i], 1e-5) << what << ", step " << i;
          }
          expect_weights(learned, oracle, layers, what);
        }
      }
    }
  }
}

// Copies, stages and parts at the same time.
TEST(Grid, LearnsWhatOneProcessLearns) {
  struct Shape {
    int copies, stages, parts;
  };
  for (const std::string name : {"cnn3", "char-gpt"}) {
    const bool text = name == "char-gpt";
    const Blueprint layers = layers_of(name, text ? 9 : 10);
    for (const std::int64_t samples : {7, 8}) {
      const Outcome oracle = one_process(layers, text, samples);
      for (const auto& [copies, stages, parts] :
           {Shape{2, 1, 1}, Shape{3, 1, 1}, Shape{1, 1, 2}, Shape{1, 1, 3}, Shape{2, 2, 1},
            Shape{2, 1, 2}, Shape{1, 2, 2}, Shape{1, 2, 3}, Shape{1, 4, 2}, Shape{2, 4, 1},
            Shape{4, 2, 1}, Shape{2, 2, 2}}) {
        for (const int m : {1, 3}) {
          const std::string what = fmt::format("{}, {} samples, {} x {} x {}, {} micro-batches",
                                               name, samples, copies, stages, parts, m);
          const Learned learned = learn(layers, grid_of(copies, stages, parts, m), text, samples);
          expect_weights(learned, oracle, layers, what);
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
