#include "strategy/mix_plan.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "strategy/registry.h"
#include "topology/spectrum.h"

namespace starling {

namespace {

// "1, 2, 1"
std::vector<double> numbers_in(const char* setting, const std::string& text) {
  std::vector<double> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    double number = -1;
    const auto [behind, error] = std::from_chars(at, end, number);
    if (error != std::errc() || !(number >= 0 && number <= 1e6)) {
      throw Error(fmt::format("{} = '{}' is not understood", setting, text),
                  "write numbers from 0 to 1000000, with commas between them");
    }
    numbers.push_back(number);
    at = behind;
  }
  return numbers;
}

std::vector<double> merge_weights_in(const std::string& text) {
  std::vector<double> weights = numbers_in("merge_weights", text);
  if (weights.empty()) return weights;
  if (weights.size() != 3 || weights[0] + weights[2] == 0) {
    throw Error(fmt::format("merge_weights = '{}' do not mix three workers", text),
                "write them like '1, 2, 1': the one before, the worker itself, the one after it");
  }
  return weights;
}

// How many rounds lie between two letters, by depth; a round is due every `period`.
std::vector<int> rounds_in(const char* setting, const std::string& text, int period) {
  std::vector<int> rounds;
  for (double number : numbers_in(setting, text)) {
    const auto steps = static_cast<int>(number);
    if (steps != number || steps == 0 || steps % period != 0) {
      throw Error(fmt::format("{} = '{}': {:g} is no multiple of period = {}", setting, text,
                              number, period),
                  "make it one");
    }
    rounds.push_back(steps / period);
  }
  return rounds;
}

}  // namespace

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
  graph.size = settings.copies();
  graph.merge_weights = merge_weights_in(settings.mix.merge_weights);
  return graph;
}

MixingSettings mixing_settings(const Settings& settings, const std::vector<Fold>& folds) {
  MixingSettings mixing = settings.mix;
  mixing.graph = graph_settings(settings);
  mixing.waits = mixes_in_step(settings);
  const int period = settings.schedule.period;
  mixing.rounds_up = rounds_in("periods_up", settings.mix.periods_up, period);
  mixing.rounds_down = rounds_in("periods_down", settings.mix.periods_down, period);
  mixing.seed = static_cast<std::uint64_t>(settings.seed);
  mixing.folds = folds;
  return mixing;
}

Schedule::Options schedule_options(const Settings& settings) {
  const ScheduleSettings& schedule = settings.schedule;
  return {static_cast<std::uint64_t>(schedule.period), schedule.probability,
          schedule.compute_ratio};
}

std::optional<double> graph_gap(const Settings& settings) {
  constexpr int kMostWorkers = 128;
  if (settings.copies() > kMostWorkers) return std::nullopt;
  const GraphSettings made_as = graph_settings(settings);
  const Graph graph = make_graph(made_as);
  using enum MixingSettings::Rule;
  const MixingSettings::Rule rule = settings.mix.rule;
  const bool is_star = graph_kind(settings) == GraphSettings::Kind::star;
  if (is_star && (rule == mean || rule == outer) && mixes_in_step(settings)) {
    return 1;  // the centre takes the mean of all
  }
  if (rule != push_sum) return spectral_gap(round_matrices(made_as, graph));
  std::vector<Matrix> rounds;
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    rounds.push_back(push_matrix(graph, round));
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
  if (schedule.overlap && (!sync || mix.rule == sampled)) {
    throw Error("overlap goes with rounds of mean, push-sum or outer",
                "leave it out, or use schedule sync and mixing mean");
  }
  const bool coded = mix.codec.kind != CodecSettings::Kind::raw;
  if (coded && mix.rule != updates && mix.rule != outer && !(mix.rule == mean && sync)) {
    throw Error(fmt::format("codec = {} goes with mixing updates and outer, and with mean in "
                            "schedule sync",
                            mix.codec.kind),
                "leave it out");
  }
  if (coded && mix.rule == outer && graph_kind(settings) != GraphSettings::Kind::mesh) {
    throw Error("coded changes are averaged over all workers", "use graph mesh, or codec raw");
  }
  if (coded && mix.rule == mean && graph_kind(settings) == GraphSettings::Kind::exponential) {
    throw Error("coded differences need the same neighbours in every round",
                "use graph static-exponential");
  }
  const GraphSettings::Passes passes_mean = graph_settings(settings).passes_mean;
  if (coded && passes_mean != GraphSettings::Passes::window) {
    throw Error(fmt::format("passes_mean = {} sends whole weights, not codec {}'s differences to "
                            "the same neighbours in every round",
                            passes_mean, mix.codec.kind),
                "use passes_mean window, or leave out the codec");
  }
  if (rule.through_centre && mix.graph.kind != GraphSettings::Kind::star) {
    throw Error(fmt::format("mixing = {} goes through a centre", mix.rule), "use graph star");
  }
  if (mix.graph.kind == GraphSettings::Kind::file && mix.graph.file.empty()) {
    throw Error("graph = file needs a file", "name it with graph_file");
  }
  if (mix.beta > mix.alpha) {
    throw Error(fmt::format("beta = {:g} is more than alpha = {:g}: who answers would move further "
                            "than who asks, and run after each",
                            mix.beta, mix.alpha),
                "alpha must be as large as beta, or larger");
  }
  mixing_settings(settings);  // says what is wrong with lists of numbers
  if (mix.graph.kind == GraphSettings::Kind::file)
    make_graph(graph_settings(settings));  // says what is wrong
}

}  // namespace starling
