// The settings of a training run: which strategy, and what is trained on what. They come from
// flags, from TOML files and from the named systems; one list of fields (visit_settings) serves the
// parser, the writer and the command line, so that none can forget one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace starling {

struct Settings {
  // How workers work together.
  int workers = 4;
  std::string strategy = "pairwise";
  int passes = 1;
  int period = 1;
  int backward_passes = 1;
  std::string exchange = "ring";

  // What is trained.
  std::string model = "mnist-cnn";
  std::string data = "mnist";
  std::string data_folder;
  int samples = 0;
  double epochs = 3;
  double evaluate_every = 1;
  int batch = 64;
  std::string optimizer = "sgd";
  double lr = 0.1;
  double momentum = 0.5;
  double weight_decay = 0;
  int seed = 1;
  std::string until;
  int bucket_kb = 1024;
};

inline constexpr std::string_view kStrategyNames =
    "allreduce, pairwise, exponential, local, single";

// Calls visit(name, value, help) for every setting; numbers get their smallest and largest value as
// well: visit(name, value, help, low, high).
template <class SettingsType, class Visitor>
void visit_settings(SettingsType& s, Visitor&& visit) {
  visit("workers", s.workers, "how many worker processes", 1, 4096);
  visit("strategy", s.strategy, "allreduce, pairwise, exponential, local or single");
  visit("passes", s.passes, "pairwise: how many ring predecessors are averaged, 1 to workers - 1",
        1, 4095);
  visit("period", s.period,
        "pairwise, exponential, local: exchange after every so many local steps", 1, 1'000'000);
  visit("backward_passes", s.backward_passes,
        "sum the gradients of so many local batches before one update (Horovod's "
        "backward_passes_per_step)",
        1, 1'000'000);
  visit("exchange", s.exchange,
        "allreduce: naive, tree, scatter-reduce, ring, doubling or halving-doubling");
  visit("model", s.model, "mnist-cnn, cnn3, mlp, or a TorchScript file (model.pt)");
  visit("data", s.data, "mnist, or synthetic: digits drawn by the program, no download");
  visit("data_folder", s.data_folder, "where the MNIST files are; empty: the cache folder");
  visit("samples", s.samples, "train on the first so many samples; 0: all (synthetic: 10000)", 0,
        100'000'000);
  visit("epochs", s.epochs, "how often every sample is seen; may be a fraction", 0.0, 1e6);
  visit("evaluate_every", s.evaluate_every,
        "evaluate the averaged model after every so many epochs; 0: only at the end", 0.0, 1e6);
  visit("batch", s.batch, "samples a worker takes for one step", 1, 1'000'000);
  visit("optimizer", s.optimizer, "sgd or adam");
  visit("lr", s.lr, "learning rate", 0.0, 1e6);
  visit("momentum", s.momentum, "sgd: momentum", 0.0, 1.0);
  visit("weight_decay", s.weight_decay, "weight decay", 0.0, 1e6);
  visit("seed", s.seed, "makes first weights, shuffling and dropout repeatable", 0, 2'000'000'000);
  visit("until", s.until, "stop early, e.g. accuracy=0.97");
  visit("bucket_kb", s.bucket_kb,
        "gradients are exchanged in buckets of so many KB while the backward pass goes on", 1,
        1'000'000);
}

// Reads the settings that a TOML text names into `settings`; throws Error, with `source` for its
// name, on anything that is not a setting or out of its range.
void read_settings(std::string_view toml, const std::string& source, Settings& settings);
std::string write_settings(const Settings& settings);

// Throws Error, in one sentence, if the settings cannot be run.
void check_settings(const Settings& settings);

// A remark worth making before the run starts, e.g. that another setting sends less.
std::optional<std::string> advice(const Settings& settings);

// The accuracy in `until`, if there is one.
std::optional<double> target_accuracy(const Settings& settings);

}  // namespace starling
