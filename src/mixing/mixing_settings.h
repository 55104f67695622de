// Which rule mixes weights: mixing/mixing.h says what each does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codec/codec.h"
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
  double step = 0.5;          // mean: 1/2 mixes as the graph's weights say, less more carefully
  std::string merge_weights;  // mean on a closed ring: of the one before, itself, the one after
  double alpha = 0.25;        // elastic, elastic-push: how far who asks or hears moves
  double beta = 0;            // elastic: how far who answers moves; 0: as far
  // elastic-push in a tree, by depth: steps between letters to the parent, and to children
  std::string periods_up, periods_down;
  double outer_lr = 0.7, outer_momentum = 0.9;
  double client_share = 1;
  double penalty = 0.1;
  CodecSettings codec;
  GraphSettings graph;

  // These follow from other settings of the run, see strategy/mix_plan.h.
  bool waits = true;  // mean: for the neighbours' models of the same round
  // elastic-push in a tree: to the parent at depth 1, 2, ... and to children at depth 0, 1, ... every
  // so many rounds, the last for all below; none: every round
  std::vector<int> rounds_up, rounds_down;
  std::uint64_t seed = 1;
  std::vector<Fold> folds;  // the matrices among the weights, for codecs that look at them

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
    visit({"merge_weights",
           Section::decentral,
           "mean on a closed-ring: how much the worker before, the worker itself and the one after "
           "it count, e.g. '1, 2, 1'; empty: all alike",
           {s.rule == mean && s.graph.kind == GraphSettings::Kind::closed_ring,
            "mixing mean with graph closed-ring"}},
          s.merge_weights);
    visit({"alpha",
           Section::decentral,
           "elastic, elastic-push: how far a worker moves, above 0 and up to 0.5",
           {s.rule == elastic || s.rule == elastic_push, "mixing elastic and elastic-push"}},
          s.alpha, 1e-9, 0.5);
    visit({"beta", Section::decentral, "elastic: how far its partner moves; 0: as far",
           rule(elastic)},
          s.beta, 0.0, 0.5);
    const Use push_in_tree = {s.rule == elastic_push && s.graph.kind == GraphSettings::Kind::tree,
                              "mixing elastic-push with graph tree"};
    visit({"periods_up", Section::decentral,
           "elastic-push in a tree: to the parent after every so many steps, at depth 1, 2, ..., "
           "the last for all below, e.g. '8, 4'; empty: every period",
           push_in_tree},
          s.periods_up);
    visit({"periods_down", Section::decentral,
           "elastic-push in a tree: to children after every so many steps, at depth 0, 1, ..., the "
           "last for all below; empty: every period",
           push_in_tree},
          s.periods_down);
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
