#include "strategy/mix_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "strategy/registry.h"
#include "topology/spectrum.h"

namespace starling {

bool is_mix(const Settings& settings) {
  return strategy_row(settings.strategy).reads == Part::mixing;
}

bool mixes_in_step(const Settings& settings) {
  return settings.schedule.kind == ScheduleSettings::Kind::sync;
}

GraphSettings::Kind graph_kind(const Settings& settings) {
  return strategy_row(settings.strategy).graph.value_or(settings.mix.graph.kind);
}

GraphSettings graph_settings(const Settings& settings) {
  GraphSettings graph = settings.mix.graph;
  graph.kind = graph_kind(settings);
  graph.size = settings.workers;
  return graph;
}

MixingSettings mixing_settings(const Settings& settings) {
  MixingSettings mixing = settings.mix;
  mixing.graph = graph_settings(settings);
  mixing.waits = mixes_in_step(settings);
  mixing.rounds_down = std::max(1, settings.mix.period_down / settings.schedule.period);
  mixing.seed = static_cast<std::uint64_t>(settings.seed);
  return mixing;
}

Schedule::Options schedule_options(const Settings& settings) {
  const ScheduleSettings& schedule = settings.schedule;
  return {static_cast<std::uint64_t>(schedule.period), schedule.probability,
          schedule.compute_ratio};
}

std::optional<double> graph_gap(const Settings& settings) {
  constexpr int kMostWorkers = 128;
  if (settings.workers > kMostWorkers) return std::nullopt;
  const Graph graph = make_graph(graph_settings(settings));
  using enum MixingSettings::Rule;
  const MixingSettings::Rule rule = settings.mix.rule;
  const bool is_star = graph_kind(settings) == GraphSettings::Kind::star;
  if (is_star && (rule == mean || rule == outer) && mixes_in_step(settings)) {
    return 1;  // the centre takes the mean of all
  }
  std::vector<Matrix> rounds;
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    rounds.push_back(rule == push_sum ? push_matrix(graph, round) : mixing_weights(graph, round));
  }
  return spectral_gap(rounds);
}

void check_mix(const Settings& settings) {
  using enum MixingSettings::Rule;
  const MixingSettings& mix = settings.mix;
  const ScheduleSettings& schedule = settings.schedule;
  const MixingRule& rule = mixing_rule(mix.rule);
  const bool sync = mixes_in_step(settings);
  if (sync && !rule.in_rounds) {
    throw Error(fmt::format("mixing = {} waits for nobody", mix.rule),
                "use schedule async or bounded");
  }
  if (!sync && !rule.by_letters) {
    throw Error(fmt::format("mixing = {} goes in rounds in which all take part", mix.rule),
                "use schedule sync");
  }
  const bool adapts = schedule.compute_ratio > 0;
  if (adapts && (!sync || mix.rule == sampled || schedule.probability < 1)) {
    throw Error("compute_ratio chooses the period of rounds in which all take part",
                "use schedule sync without probability and mixing sampled, or leave it out");
  }
  if (schedule.overlap && (!sync || mix.rule == outer || mix.rule == sampled)) {
    throw Error("overlap goes with rounds of mean or push-sum",
                "leave it out, or use schedule sync and mixing mean");
  }
  const bool coded = mix.codec.kind != CodecSettings::Kind::raw;
  if (coded && mix.rule != updates && !(mix.rule == mean && sync)) {
    throw Error(fmt::format("codec = {} goes with mixing updates, and with mean in schedule sync",
                            mix.codec.kind),
                "leave it out");
  }
  if (coded && mix.rule == mean && graph_kind(settings) == GraphSettings::Kind::exponential) {
    throw Error("coded differences need the same neighbours in every round",
                "use graph static-exponential");
  }
  if (rule.through_centre && mix.graph.kind != GraphSettings::Kind::star) {
    throw Error(fmt::format("mixing = {} goes through a centre", mix.rule), "use graph star");
  }
  if (mix.graph.kind == GraphSettings::Kind::file && mix.graph.file.empty()) {
    throw Error("graph = file needs a file", "name it with graph_file");
  }
  if (mix.period_down % schedule.period != 0) {
    throw Error(fmt::format("period_down = {} is no multiple of period = {}", mix.period_down,
                            schedule.period),
                "make it one");
  }
  if (mix.graph.kind == GraphSettings::Kind::file)
    make_graph(graph_settings(settings));  // says what is wrong
}

}  // namespace starling
