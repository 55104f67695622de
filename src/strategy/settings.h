// The settings of a training run: which strategy, and what is trained on what. They come from
// flags, from TOML files and from the named systems; one list of fields (visit_settings) serves the
// parser, the writer, the checks and the command line, so that none can forget one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/slowness.h"

namespace starling {

struct Settings {
  // How workers work together.
  int workers = 4;
  std::string strategy = "pairwise";
  int passes = 1;
  int period = 1;
  int backward_passes = 1;
  std::string exchange = "auto";

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

// What a setting is about. All but what is trained is for programs of the user's own as well.
enum class Section { together, decentral, sent, servers, learning, trained };

// Which choice a setting is part of: without that choice, nobody reads it.
enum class ReadBy {
  everybody,
  allreduce,
  window,
  mixing,
  mix,
  tree,
  graph_file,
  mean,
  elastic_rules,
  elastic,
  push_in_tree,
  outer,
  sampled,
  penalty,
  bounded,
  any_codec,
  top_k,
  threshold,
  server,
  ssp,
  value,
  quorum,
  epoch,
  compensate,
  momentum,
  dirichlet
};

struct Setting {
  const char* name;
  Section section;
  ReadBy read_by;
  const char* help;
};

// Calls visit(setting, value) for every setting; numbers get their smallest and largest value as
// well: visit(setting, value, low, high).
template <class SettingsType, class Visitor>
void visit_settings(SettingsType& s, Visitor&& visit) {
  visit({"workers", Section::together, ReadBy::everybody, "how many worker processes"}, s.workers,
        1, 4096);
  visit({"strategy", Section::together, ReadBy::everybody,
         "allreduce, server, ring-leader, mix, pairwise, exponential, local or single"},
        s.strategy);
  visit({"passes", Section::together, ReadBy::window,
         "pairwise, graph window: how many ring predecessors are averaged, 1 to workers - 1"},
        s.passes, 1, 4095);
  visit({"period", Section::together, ReadBy::mixing,
         "mix, pairwise, exponential, local: mix after every so many local steps"},
        s.period, 1, 1'000'000);
  visit({"backward_passes", Section::together, ReadBy::everybody,
         "sum the gradients of so many local batches before one update (Horovod's "
         "backward_passes_per_step)"},
        s.backward_passes, 1, 1'000'000);
  visit({"exchange", Section::together, ReadBy::allreduce,
         "allreduce: auto (the fastest for each length), naive, tree, scatter-reduce, ring, "
         "doubling or "
         "halving-doubling"},
        s.exchange);
  visit({"graph", Section::decentral, ReadBy::mix,
         "mix: who hears whom: window, closed-ring, exponential, static-exponential, tree, star, "
         "mesh or file (see `starling graph`)"},
        s.graph);
  visit({"arity", Section::decentral, ReadBy::tree, "graph tree: how many children a worker has"},
        s.arity, 1, 4096);
  visit({"graph_file", Section::decentral, ReadBy::graph_file,
         "graph file: one edge a line, 'a b' or 'a -> b'"},
        s.graph_file);
  visit({"mixing", Section::decentral, ReadBy::mix,
         "mix: mean, push-sum, outer, sampled, elastic, elastic-push, sum-weight, updates or "
         "penalty"},
        s.mixing);
  visit({"mixing_step", Section::decentral, ReadBy::mean,
         "mean: 0.5 mixes as the graph's weights say, less goes more carefully"},
        s.mixing_step, 1e-6, 1.0);
  visit({"alpha", Section::decentral, ReadBy::elastic_rules,
         "elastic, elastic-push: how far a worker moves, above 0 and up to 0.5"},
        s.alpha, 1e-9, 0.5);
  visit({"beta", Section::decentral, ReadBy::elastic,
         "elastic: how far its partner moves; 0: as far"},
        s.beta, 0.0, 0.5);
  visit({"period_down", Section::decentral, ReadBy::push_in_tree,
         "elastic-push in a tree: to children after every so many steps; 0: every period"},
        s.period_down, 0, 1'000'000);
  visit({"outer_lr", Section::decentral, ReadBy::outer,
         "outer: learning rate of the outer optimizer"},
        s.outer_lr, 0.0, 1e6);
  visit({"outer_momentum", Section::decentral, ReadBy::outer, "outer: its Nesterov momentum"},
        s.outer_momentum, 0.0, 1.0);
  visit({"client_share", Section::decentral, ReadBy::sampled,
         "sampled: the share of workers that trains in a round"},
        s.client_share, 1e-6, 1.0);
  visit({"penalty", Section::decentral, ReadBy::penalty,
         "penalty: how hard the master's model pulls"},
        s.penalty, 0.0, 1e6);
  visit({"schedule", Section::decentral, ReadBy::mix, "mix: sync, async or bounded"}, s.schedule);
  visit({"probability", Section::decentral, ReadBy::mixing,
         "mix: whether to mix when it is due, above 0 and up to 1 (always)"},
        s.probability, 1e-9, 1.0);
  visit(
      {"compute_ratio", Section::decentral, ReadBy::mixing,
       "mix: choose the period so that computing takes so many times as long as mixing (SparkNet: "
       "5); 0: keep it"},
      s.compute_ratio, 0.0, 1e6);
  visit({"ahead_bound", Section::decentral, ReadBy::bounded,
         "bounded: how many steps a worker may be ahead of the slowest it hears"},
        s.ahead_bound, 1, 1'000'000);
  visit({"overlap", Section::decentral, ReadBy::mixing,
         "sync: mix while the next steps are computed"},
        s.overlap);
  visit({"codec", Section::sent, ReadBy::mixing,
         "mixing mean and updates: what is sent: raw, half, bfloat, threshold or top-k"},
        s.codec);
  visit({"codec_share", Section::sent, ReadBy::top_k, "top-k: the share of elements that is sent"},
        s.codec_share, 1e-9, 1.0);
  visit({"codec_threshold", Section::sent, ReadBy::threshold,
         "threshold: what an element must reach to be sent"},
        s.codec_threshold, 1e-12, 1e12);
  visit({"codec_adaptive", Section::sent, ReadBy::threshold,
         "threshold: move it so that 0.01 to 1 % of the elements are sent"},
        s.codec_adaptive);
  visit({"codec_entropy", Section::sent, ReadBy::any_codec,
         "compress codes by zstd where that makes them shorter"},
        s.codec_entropy);
  visit({"servers", Section::servers, ReadBy::server,
         "server: how many parameter servers; 0: as many as workers"},
        s.servers, 0, 4096);
  visit({"placement", Section::servers, ReadBy::server,
         "server: apart (processes of their own) or workers (the first workers serve as well)"},
        s.placement);
  visit({"group", Section::servers, ReadBy::server,
         "server: workers that reduce to a proxy, which talks to the servers; 1: none, 0: all"},
        s.group, 0, 4096);
  visit({"replicas", Section::servers, ReadBy::server,
         "server: copies of each shard; more than 1 is not built yet"},
        s.replicas, 1, 64);
  visit({"gate", Section::servers, ReadBy::server,
         "server: when it answers: bsp, ssp, async, value, quorum or epoch"},
        s.gate);
  visit({"delay_bound", Section::servers, ReadBy::ssp,
         "ssp: how many steps a worker may be ahead of the slowest"},
        s.delay_bound, 0, 1'000'000'000);
  visit({"value_bound", Section::servers, ReadBy::value,
         "value: how far a weight may move while a worker computes"},
        s.value_bound, 1e-12, 1e6);
  visit({"quorum", Section::servers, ReadBy::quorum,
         "quorum: how many gradients make a step; 0: all but one worker's"},
        s.quorum, 0, 4096);
  visit({"epoch_share", Section::servers, ReadBy::epoch,
         "epoch: the share of its samples after which an epoch ends"},
        s.epoch_share, 0.01, 1.0);
  visit({"staleness", Section::servers, ReadBy::server,
         "server: what to do about stale gradients: plain, scale or compensate"},
        s.staleness);
  visit({"compensation", Section::servers, ReadBy::compensate,
         "compensate: lambda in g + lambda g g (w_now - w_then)"},
        s.compensation, 0.0, 1e6);
  visit(
      {"push_every", Section::servers, ReadBy::server, "server: push the sum of so many gradients"},
      s.push_every, 1, 1'000'000);
  visit({"fetch_every", Section::servers, ReadBy::server,
         "server: fetch weights after so many steps"},
        s.fetch_every, 1, 1'000'000);
  visit({"lag", Section::servers, ReadBy::server,
         "server: go on while the exchanges of so many steps are under way"},
        s.lag, 0, 64);
  visit({"eager", Section::servers, ReadBy::server,
         "server: send fresh weights to workers before they ask"},
        s.eager);
  visit({"factors", Section::servers, ReadBy::server,
         "server: dense layers send activations and errors where that is less than their gradient"},
        s.factors);
  visit({"slow", Section::together, ReadBy::everybody,
         "slow a worker down, e.g. 3:5 for worker 3 by five times"},
        s.slow);
  visit({"model", Section::trained, ReadBy::everybody,
         "mnist-cnn, cnn3, mlp, or a TorchScript file (model.pt)"},
        s.model);
  visit({"data", Section::trained, ReadBy::everybody,
         "mnist, or synthetic: digits drawn by the program, no download"},
        s.data);
  visit({"data_folder", Section::trained, ReadBy::everybody,
         "where the MNIST files are; empty: the cache folder"},
        s.data_folder);
  visit({"samples", Section::trained, ReadBy::everybody,
         "train on the first so many samples; 0: all (synthetic: 10000)"},
        s.samples, 0, 100'000'000);
  visit(
      {"shards", Section::trained, ReadBy::everybody,
       "how samples are shared out: even, dirichlet (labels unevenly) or label (two labels each)"},
      s.shards);
  visit({"shard_alpha", Section::trained, ReadBy::dirichlet,
         "dirichlet: the smaller, the more uneven"},
        s.shard_alpha, 1e-3, 1e6);
  visit({"epochs", Section::trained, ReadBy::everybody,
         "how often every sample is seen; may be a fraction"},
        s.epochs, 0.0, 1e6);
  visit({"evaluate_every", Section::trained, ReadBy::everybody,
         "evaluate the averaged model after every so many epochs; 0: only at the end"},
        s.evaluate_every, 0.0, 1e6);
  visit({"batch", Section::trained, ReadBy::everybody, "samples a worker takes for one step"},
        s.batch, 1, 1'000'000);
  visit({"optimizer", Section::learning, ReadBy::everybody, "sgd, nesterov, adagrad or adam"},
        s.optimizer);
  visit({"lr", Section::learning, ReadBy::everybody, "learning rate"}, s.lr, 0.0, 1e6);
  visit({"momentum", Section::learning, ReadBy::momentum, "sgd, nesterov: momentum"}, s.momentum,
        0.0, 1.0);
  visit({"weight_decay", Section::learning, ReadBy::everybody, "weight decay"}, s.weight_decay, 0.0,
        1e6);
  visit({"seed", Section::learning, ReadBy::everybody,
         "makes first weights, shuffling and dropout repeatable"},
        s.seed, 0, 2'000'000'000);
  visit({"until", Section::trained, ReadBy::everybody, "stop early, e.g. accuracy=0.97"}, s.until);
  visit({"bucket_kb", Section::together, ReadBy::everybody,
         "gradients are exchanged in buckets of so many KB while the backward pass goes on"},
        s.bucket_kb, 1, 1'000'000);
}

// Reads the settings that a TOML text names into `settings`; throws Error, with `source` for its
// name, on anything that is not a setting or out of its range.
void read_settings(std::string_view toml, const std::string& source, Settings& settings);
std::string write_settings(const Settings& settings);

// Throws Error, in one sentence, if the settings cannot be run, or if one that is not as it is by
// default is read by nobody in this configuration.
void check_settings(const Settings& settings);

// A remark worth making before the run starts, e.g. that another setting sends less.
std::optional<std::string> advice(const Settings& settings);

// Which worker `slow` names, and by how much; nothing if none is.
std::optional<Slowness> slow_worker(const Settings& settings);

// The accuracy in `until`, if there is one.
std::optional<double> target_accuracy(const Settings& settings);

}  // namespace starling
