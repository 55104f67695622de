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

  // Decentral systems: who mixes with whom, how, and when.
  std::string graph = "window";
  int arity = 2;
  std::string graph_file;
  std::string mixing = "mean";
  double mixing_step = 0.5;
  double alpha = 0.25;
  double beta = 0;
  int period_down = 0;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  double client_share = 1;
  double penalty = 0.1;
  std::string schedule = "sync";
  double probability = 1;
  double compute_ratio = 0;
  int ahead_bound = 16;
  bool overlap = false;

  // What is sent.
  std::string codec = "raw";
  double codec_share = 0.01;
  double codec_threshold = 1e-3;
  bool codec_adaptive = false;
  bool codec_entropy = false;

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
  std::string shards = "even";
  double shard_alpha = 0.5;
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
    "allreduce, server, ring-leader, mix, pairwise, exponential, local, single";
inline constexpr std::string_view kMixingNames =
    "mean, push-sum, outer, sampled, elastic, elastic-push, sum-weight, updates, penalty";
inline constexpr std::string_view kGateNames = "bsp, ssp, async, value, quorum, epoch";

// Calls visit(name, value, help) for every setting; numbers get their smallest and largest value as
// well: visit(name, value, help, low, high).
template <class SettingsType, class Visitor>
void visit_settings(SettingsType& s, Visitor&& visit) {
  visit("workers", s.workers, "how many worker processes", 1, 4096);
  visit("strategy", s.strategy,
        "allreduce, server, ring-leader, mix, pairwise, exponential, local or single");
  visit("passes", s.passes,
        "pairwise, graph window: how many ring predecessors are averaged, 1 to workers - 1", 1,
        4095);
  visit("period", s.period,
        "mix, pairwise, exponential, local: mix after every so many local steps", 1, 1'000'000);
  visit("backward_passes", s.backward_passes,
        "sum the gradients of so many local batches before one update (Horovod's "
        "backward_passes_per_step)",
        1, 1'000'000);
  visit("exchange", s.exchange,
        "allreduce: naive, tree, scatter-reduce, ring, doubling or halving-doubling");
  visit("graph", s.graph,
        "mix: who hears whom: window, closed-ring, exponential, static-exponential, tree, star, "
        "mesh or file (see `starling graph`)");
  visit("arity", s.arity, "graph tree: how many children a worker has", 1, 4096);
  visit("graph_file", s.graph_file, "graph file: one edge a line, 'a b' or 'a -> b'");
  visit("mixing", s.mixing,
        "mix: mean, push-sum, outer, sampled, elastic, elastic-push, sum-weight, updates or "
        "penalty");
  visit("mixing_step", s.mixing_step,
        "mean: 0.5 mixes as the graph's weights say, less goes more carefully", 1e-6, 1.0);
  visit("alpha", s.alpha, "elastic, elastic-push: how far a worker moves, above 0 and up to 0.5",
        1e-9, 0.5);
  visit("beta", s.beta, "elastic: how far its partner moves; 0: as far", 0.0, 0.5);
  visit("period_down", s.period_down,
        "elastic-push in a tree: to children after every so many steps; 0: every period", 0,
        1'000'000);
  visit("outer_lr", s.outer_lr, "outer: learning rate of the outer optimizer", 0.0, 1e6);
  visit("outer_momentum", s.outer_momentum, "outer: its Nesterov momentum", 0.0, 1.0);
  visit("client_share", s.client_share, "sampled: the share of workers that trains in a round",
        1e-6, 1.0);
  visit("penalty", s.penalty, "penalty: how hard the master's model pulls", 0.0, 1e6);
  visit("schedule", s.schedule, "mix: sync, async or bounded");
  visit("probability", s.probability,
        "mix: whether to mix when it is due, above 0 and up to 1 (always)", 1e-9, 1.0);
  visit("compute_ratio", s.compute_ratio,
        "mix: choose the period so that computing takes so many times as long as mixing (SparkNet: "
        "5); 0: keep it",
        0.0, 1e6);
  visit("ahead_bound", s.ahead_bound,
        "bounded: how many steps a worker may be ahead of the slowest it hears", 1, 1'000'000);
  visit("overlap", s.overlap, "sync: mix while the next steps are computed");
  visit("codec", s.codec,
        "mixing mean and updates: what is sent: raw, half, bfloat, threshold or top-k");
  visit("codec_share", s.codec_share, "top-k: the share of elements that is sent", 1e-9, 1.0);
  visit("codec_threshold", s.codec_threshold, "threshold: what an element must reach to be sent",
        1e-12, 1e12);
  visit("codec_adaptive", s.codec_adaptive,
        "threshold: move it so that 0.01 to 1 % of the elements are sent");
  visit("codec_entropy", s.codec_entropy, "compress codes by zstd where that makes them shorter");
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
  visit("shards", s.shards,
        "how samples are shared out: even, dirichlet (labels unevenly) or label (two labels each)");
  visit("shard_alpha", s.shard_alpha, "dirichlet: the smaller, the more uneven", 1e-3, 1e6);
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
