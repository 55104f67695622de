// Which rule mixes weights: mixing/mixing.h says what each does.
#pragma once

#include <cstdint>

#include "codec/codec_settings.h"
#include "topology/graph_settings.h"

namespace starling {

struct MixingSettings {
  enum class Rule {
    mean,
    push_sum,
    outer,
    sampled,
    elastic,
    elastic_push,
    sum_weight,
    updates,
    penalty
  };
  friend constexpr Names<9> names_of(Rule) {
    return {"mixing rule",
            {"mean", "push-sum", "outer", "sampled", "elastic", "elastic-push", "sum-weight",
             "updates", "penalty"}};
  }

  Rule rule = Rule::mean;
  double step = 0.5;    // mean: 1/2 mixes as the graph's weights say, less more carefully
  double alpha = 0.25;  // elastic, elastic-push: how far who asks or hears moves
  double beta = 0;      // elastic: how far who answers moves; 0: as far
  int period_down = 0;  // elastic-push in a tree: steps between letters to children
  double outer_lr = 0.7, outer_momentum = 0.9;
  double client_share = 1;
  double penalty = 0.1;
  CodecSettings codec;
  GraphSettings graph;

  // These follow from other settings of the run, see strategy/mix_plan.h.
  bool waits = true;    // mean: for the neighbours' models of the same round
  int rounds_down = 1;  // elastic-push in a tree: to children every so many rounds
  std::uint64_t seed = 1;

  // But for the codec's and the graph's, which have their own.
  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    using enum Rule;
    const auto rule = [&](Rule which) {
      return Use{s.rule == which, fmt::format("mixing {}", which)};
    };
    visit({"mixing",
           Section::decentral,
           "mix: " + names_listed<Rule>(" or "),
           {.only_where_open = true}},
          s.rule);
    visit({"mixing_step", Section::decentral,
           "mean: 0.5 mixes as the graph's weights say, less goes more carefully", rule(mean)},
          s.step, 1e-6, 1.0);
    visit({"alpha",
           Section::decentral,
           "elastic, elastic-push: how far a worker moves, above 0 and up to 0.5",
           {s.rule == elastic || s.rule == elastic_push, "mixing elastic and elastic-push"}},
          s.alpha, 1e-9, 0.5);
    visit({"beta", Section::decentral, "elastic: how far its partner moves; 0: as far",
           rule(elastic)},
          s.beta, 0.0, 0.5);
    visit({"period_down",
           Section::decentral,
           "elastic-push in a tree: to children after every so many steps; 0: every period",
           {s.rule == elastic_push && s.graph.kind == GraphSettings::Kind::tree,
            "mixing elastic-push with graph tree"}},
          s.period_down, 0, 1'000'000);
    visit({"outer_lr", Section::decentral, "outer: learning rate of the outer optimizer",
           rule(outer)},
          s.outer_lr, 0.0, 1e6);
    visit({"outer_momentum", Section::decentral, "outer: its Nesterov momentum", rule(outer)},
          s.outer_momentum, 0.0, 1.0);
    visit({"client_share", Section::decentral,
           "sampled: the share of workers that trains in a round", rule(sampled)},
          s.client_share, 1e-6, 1.0);
    visit({"penalty", Section::decentral, "penalty: how hard the master's model pulls",
           rule(Rule::penalty)},
          s.penalty, 0.0, 1e6);
  }
};

}  // namespace starling
