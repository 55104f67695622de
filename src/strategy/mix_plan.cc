#include "strategy/mix_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "strategy/names.h"
#include "topology/spectrum.h"

namespace starling {

namespace {

// Rules that wait for nobody.
bool writes_letters(const Settings& settings) {
  return is_one_of(settings.mixing, "elastic, elastic-push, sum-weight, updates, penalty");
}

}  // namespace

bool is_mix(const Settings& settings) {
  return is_one_of(settings.strategy, "mix, pairwise, exponential, local");
}

bool mixes_in_step(const Settings& settings) { return settings.schedule == "sync"; }

GraphSettings graph_settings(const Settings& settings) {
  GraphSettings graph;
  graph.name = settings.strategy == "mix"           ? settings.graph
               : settings.strategy == "exponential" ? "exponential"
               : settings.strategy == "local"       ? "mesh"
                                                    : "window";
  graph.size = settings.workers;
  graph.passes = settings.passes;
  graph.arity = settings.arity;
  graph.file = settings.graph_file;
  return graph;
}

MixingSettings mixing_settings(const Settings& settings) {
  MixingSettings mixing;
  mixing.rule = settings.mixing;
  mixing.waits = mixes_in_step(settings);
  mixing.step = settings.mixing_step;
  mixing.alpha = settings.alpha;
  mixing.beta = settings.beta > 0 ? settings.beta : settings.alpha;
  mixing.rounds_down = std::max(1, settings.period_down / settings.period);
  mixing.outer_lr = settings.outer_lr;
  mixing.outer_momentum = settings.outer_momentum;
  mixing.client_share = settings.client_share;
  mixing.penalty = settings.penalty;
  mixing.seed = static_cast<std::uint64_t>(settings.seed);
  mixing.codec = {settings.codec, settings.codec_share, settings.codec_threshold,
                  settings.codec_adaptive, settings.codec_entropy};
  mixing.graph = graph_settings(settings);
  return mixing;
}

Schedule::Options schedule_options(const Settings& settings) {
  return {static_cast<std::uint64_t>(settings.period), settings.probability,
          settings.compute_ratio};
}

std::optional<double> graph_gap(const Settings& settings) {
  constexpr int kMostWorkers = 128;
  if (settings.workers > kMostWorkers) return std::nullopt;
  const Graph graph = make_graph(graph_settings(settings));
  const bool mean = settings.mixing == "mean" || settings.mixing == "outer";
  if (graph_settings(settings).name == "star" && mean && mixes_in_step(settings)) {
    return 1;  // the centre takes the mean of all
  }
  std::vector<Matrix> rounds;
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    rounds.push_back(settings.mixing == "push-sum" ? push_matrix(graph, round)
                                                   : mixing_weights(graph, round));
  }
  return spectral_gap(rounds);
}

void check_mix(const Settings& settings) {
  check_name("graph", settings.graph, kGraphNames);
  check_name("mixing rule", settings.mixing, kMixingNames);
  check_name("schedule", settings.schedule, "sync, async, bounded");
  check_name("codec", settings.codec, kCodecNames);
  const bool sync = mixes_in_step(settings);
  if (sync && writes_letters(settings)) {
    throw Error(fmt::format("mixing = {} waits for nobody", settings.mixing),
                "use schedule async or bounded");
  }
  if (!sync && is_one_of(settings.mixing, "push-sum, outer, sampled")) {
    throw Error(fmt::format("mixing = {} goes in rounds in which all take part", settings.mixing),
                "use schedule sync");
  }
  const bool adapts = settings.compute_ratio > 0;
  if (adapts && (!sync || settings.mixing == "sampled" || settings.probability < 1)) {
    throw Error("compute_ratio chooses the period of rounds in which all take part",
                "use schedule sync without probability and mixing sampled, or leave it out");
  }
  if (settings.overlap && (!sync || is_one_of(settings.mixing, "outer, sampled"))) {
    throw Error("overlap goes with rounds of mean or push-sum",
                "leave it out, or use schedule sync and mixing mean");
  }
  const bool coded = settings.codec != "raw";
  if (coded && settings.mixing != "updates" && !(settings.mixing == "mean" && sync)) {
    throw Error(fmt::format("codec = {} goes with mixing updates, and with mean in schedule sync",
                            settings.codec),
                "leave it out");
  }
  if (coded && settings.mixing == "mean" && graph_settings(settings).name == "exponential") {
    throw Error("coded differences need the same neighbours in every round",
                "use graph static-exponential");
  }
  if (is_one_of(settings.mixing, "sampled, penalty") && settings.graph != "star") {
    throw Error(fmt::format("mixing = {} goes through a centre", settings.mixing),
                "use graph star");
  }
  if (settings.graph == "file" && settings.graph_file.empty()) {
    throw Error("graph = file needs a file", "name it with graph_file");
  }
  if (settings.period_down % settings.period != 0) {
    throw Error(fmt::format("period_down = {} is no multiple of period = {}", settings.period_down,
                            settings.period),
                "make it one");
  }
  if (settings.graph == "file") make_graph(graph_settings(settings));  // says what is wrong with it
}

}  // namespace starling
