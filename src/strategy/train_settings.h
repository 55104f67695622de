// What is trained on what, for how long, and where it stops.
#pragma once

#include <optional>
#include <string>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

struct TrainSettings {
  enum class Data { mnist, synthetic };
  friend constexpr Names<2> names_of(Data) { return {"data set", {"mnist", "synthetic"}}; }
  enum class Shards { even, dirichlet, label };
  friend constexpr Names<3> names_of(Shards) {
    return {"way to share out samples", {"even", "dirichlet", "label"}};
  }

  std::string model = "mnist-cnn";
  Data data = Data::mnist;
  std::string data_folder;
  int samples = 0;
  Shards shards = Shards::even;
  double shard_alpha = 0.5;
  double epochs = 3;
  double evaluate_every = 1;
  int batch = 64;
  std::string until;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit({"model",
           Section::trained,
           "mnist-cnn, cnn3, mlp, or a TorchScript file (model.pt)",
           {},
           Alike::contents},
          s.model);
    visit(
        {"data", Section::trained, "mnist, or synthetic: digits drawn by the program, no download"},
        s.data);
    visit({"data_folder",
           Section::trained,
           "where the MNIST files are; empty: the cache folder",
           {},
           Alike::nothing},
          s.data_folder);
    visit({"samples", Section::trained,
           "train on the first so many samples; 0: all (synthetic: 10000)"},
          s.samples, 0, 100'000'000);
    visit({"shards", Section::trained,
           "how samples are shared out: even, dirichlet (labels unevenly) or label (two labels "
           "each)"},
          s.shards);
    visit({"shard_alpha",
           Section::trained,
           "dirichlet: the smaller, the more uneven",
           {s.shards == Shards::dirichlet, "shards dirichlet"}},
          s.shard_alpha, 1e-3, 1e6);
    visit({"epochs", Section::trained, "how often every sample is seen; may be a fraction"},
          s.epochs, 0.0, 1e6);
    visit({"evaluate_every", Section::trained,
           "evaluate the averaged model after every so many epochs; 0: only at the end"},
          s.evaluate_every, 0.0, 1e6);
    visit({"batch", Section::trained, "samples a worker takes for one step"}, s.batch, 1,
          1'000'000);
    visit({"until", Section::trained, "stop early, e.g. accuracy=0.97"}, s.until);
  }
};

// The accuracy in `until`, if there is one; throws Error if it says something else.
std::optional<double> target_accuracy(const TrainSettings& settings);

}  // namespace starling
