// What is trained on what, for how long, and where it stops.
#pragma once

#include <optional>
#include <string>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

// The sizes of a built-in network, where they can be chosen.
struct NetworkSettings {
  enum class Norm { group, batch };
  friend constexpr Names<2> names_of(Norm) { return {"norm", {"group", "batch"}}; }

  int layers = 2;
  int width = 128;
  int heads = 4;
  int context = 64;
  int depth = 3;
  int channels = 8;
  Norm norm = Norm::group;

  template <class Self, class Visitor>
  static void visit(Self& s, const std::string& model, Visitor&& visit) {
    const Use use{model == "char-gpt", "model char-gpt"};
    visit({"layers", Section::trained, "char-gpt: how many blocks", use}, s.layers, 1, 1'000);
    visit({"width", Section::trained, "char-gpt: numbers that stand for a character", use}, s.width,
          2, 65'536);
    visit({"heads", Section::trained, "char-gpt: heads of attention in a block", use}, s.heads, 1,
          1'024);
    visit({"context", Section::trained, "char-gpt: characters it looks at", use}, s.context, 1,
          65'536);
    const Use images{model == "resnet" || model == "local-net", "models resnet and local-net"};
    visit({"depth", Section::trained, "resnet: residual blocks; local-net: filter layers", images},
          s.depth, 1, 1'000);
    visit({"channels", Section::trained,
           "resnet: channels of the first blocks, twice and four times as many follow; local-net: "
           "filters at each place",
           images},
          s.channels, 1, 65'536);
    visit({"norm",
           Section::trained,
           "resnet: normalize by group (of channels) or by batch",
           {model == "resnet", "model resnet"}},
          s.norm);
  }
};

struct TrainSettings {
  enum class Data { mnist, fashion_mnist, synthetic, kjv, text };
  friend constexpr Names<5> names_of(Data) {
    return {"data set", {"mnist", "fashion-mnist", "synthetic", "kjv", "text"}};
  }
  enum class Shards { even, dirichlet, label };
  friend constexpr Names<3> names_of(Shards) {
    return {"way to share out samples", {"even", "dirichlet", "label"}};
  }

  std::string model = "mnist-cnn";
  NetworkSettings network;
  Data data = Data::mnist;
  std::string data_folder;
  int samples = 0;
  int test_samples = 0;
  Shards shards = Shards::even;
  double shard_alpha = 0.5;
  double epochs = 3;
  int steps = 0;
  double evaluate_every = 1;
  int batch = 64;
  std::string until;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit({"model",
           Section::trained,
           "mnist-cnn, cnn3, mlp, resnet, local-net, char-gpt, or a TorchScript file (model.pt)",
           {},
           Alike::contents},
          s.model);
    NetworkSettings::visit(s.network, s.model, visit);
    visit(
        {"data", Section::trained,
         "mnist; fashion-mnist: clothes in the same form; synthetic: digits drawn by the program, "
         "no download; kjv: the King James Bible; text: all .txt files of --data-folder"},
        s.data);
    visit({"data_folder",
           Section::trained,
           "where the data is; empty: the cache folder",
           {},
           Alike::nothing},
          s.data_folder);
    visit({"samples", Section::trained,
           "train on the first so many samples; 0: all (synthetic: 10000)"},
          s.samples, 0, 100'000'000);
    visit({"test_samples", Section::trained, "evaluate on the first so many test samples; 0: all"},
          s.test_samples, 0, 100'000'000);
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
    visit({"steps", Section::trained, "steps of each worker, in place of epochs; 0: as epochs say"},
          s.steps, 0, 1'000'000'000);
    visit({"evaluate_every", Section::trained,
           "evaluate the averaged model after every so many epochs; 0: only at the end"},
          s.evaluate_every, 0.0, 1e6);
    visit({"batch", Section::trained, "samples a worker takes for one step"}, s.batch, 1,
          1'000'000);
    visit({"until", Section::trained, "stop early, e.g. accuracy=0.97 or loss=2.2"}, s.until);
  }

  bool is_text() const { return data == Data::kjv || data == Data::text; }
};

// Throws Error, in one sentence, if model and data do not go together.
void check(const TrainSettings& settings);

// Of a built-in network: how many layers a pipeline can share out (train/blueprint.h makes them).
std::optional<int> layer_count(const TrainSettings& settings);

// Where a run may stop.
struct Target {
  enum class Measure { accuracy, loss };
  Measure measure;
  double value;

  bool reached(double accuracy, double loss) const {
    return measure == Measure::accuracy ? accuracy >= value : loss <= value;
  }
};
// What `until` says, if anything; throws Error if it is not understood.
std::optional<Target> target_of(const TrainSettings& settings);

}  // namespace starling
