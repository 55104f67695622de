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

  // Parameter servers.
  int servers = 1;
  std::string placement = "apart";
  int group = 1;
  int replicas = 1;
  std::string gate = "bsp";
  int delay_bound = 3;
  double value_bound = 0.1;
  int quorum = 0;
  double epoch_share = 0.75;
  std::string staleness = "plain";
  double compensation = 0.04;
  int push_every = 1;
  int fetch_every = 1;
  int lag = 0;
  bool eager = false;
  bool factors = false;
  std::string slow;

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
    "allreduce, server, ring-leader, pairwise, exponential, local, single";
inline constexpr std::string_view kGateNames = "bsp, ssp, async, value, quorum, epoch";

// Calls visit(name, value, help) for every setting; numbers get their smallest and largest value as
// well: visit(name, value, help, low, high).
template <class SettingsType, class Visitor>
void visit_settings(SettingsType& s, Visitor&& visit) {
  visit("workers", s.workers, "how many worker processes", 1, 4096);
  visit("strategy", s.strategy,
        "allreduce, server, ring-leader, pairwise, exponential, local or single");
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
  visit("servers", s.servers, "server: how many parameter servers; 0: as many as workers", 0, 4096);
  visit("placement", s.placement,
        "server: apart (processes of their own) or workers (the first workers serve as well)");
  visit("group", s.group,
        "server: workers that reduce to a proxy, which talks to the servers; 1: none, 0: all", 0,
        4096);
  visit("replicas", s.replicas, "server: copies of each shard; more than 1 is not built yet", 1,
        64);
  visit("gate", s.gate, "server: when it answers: bsp, ssp, async, value, quorum or epoch");
  visit("delay_bound", s.delay_bound, "ssp: how many steps a worker may be ahead of the slowest", 0,
        1'000'000'000);
  visit("value_bound", s.value_bound, "value: how far a weight may move while a worker computes",
        1e-12, 1e6);
  visit("quorum", s.quorum, "quorum: how many gradients make a step; 0: all but one worker's", 0,
        4096);
  visit("epoch_share", s.epoch_share, "epoch: the share of its samples after which an epoch ends",
        0.01, 1.0);
  visit("staleness", s.staleness,
        "server: what to do about stale gradients: plain, scale or compensate");
  visit("compensation", s.compensation, "compensate: lambda in g + lambda g g (w_now - w_then)",
        0.0, 1e6);
  visit("push_every", s.push_every, "server: push the sum of so many gradients", 1, 1'000'000);
  visit("fetch_every", s.fetch_every, "server: fetch weights after so many steps", 1, 1'000'000);
  visit("lag", s.lag, "server: go on while the exchanges of so many steps are under way", 0, 64);
  visit("eager", s.eager, "server: send fresh weights to workers before they ask");
  visit("factors", s.factors,
        "server: dense layers send activations and errors where that is less than their gradient");
  visit("slow", s.slow, "slow a worker down, e.g. 3:5 for worker 3 by five times");
  visit("model", s.model, "mnist-cnn, cnn3, mlp, or a TorchScript file (model.pt)");
  visit("data", s.data, "mnist, or synthetic: digits drawn by the program, no download");
  visit("data_folder", s.data_folder, "where the MNIST files are; empty: the cache folder");
  visit("samples", s.samples, "train on the first so many samples; 0: all (synthetic: 10000)", 0,
        100'000'000);
  visit("epochs", s.epochs, "how often every sample is seen; may be a fraction", 0.0, 1e6);
  visit("evaluate_every", s.evaluate_every,
        "evaluate the averaged model after every so many epochs; 0: only at the end", 0.0, 1e6);
  visit("batch", s.batch, "samples a worker takes for one step", 1, 1'000'000);
  visit("optimizer", s.optimizer, "sgd, nesterov, adagrad or adam");
  visit("lr", s.lr, "learning rate", 0.0, 1e6);
  visit("momentum", s.momentum, "sgd, nesterov: momentum", 0.0, 1.0);
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

// Which worker `slow` names, and by how much; nothing if none is.
struct SlowWorker {
  int rank;
  double factor;
};
std::optional<SlowWorker> slow_worker(const Settings& settings);

// The accuracy in `until`, if there is one.
std::optional<double> target_accuracy(const Settings& settings);

}  // namespace starling
