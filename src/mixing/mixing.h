// Mixing: how a worker's weights and those of its neighbours become one. One rule a file; who the
// neighbours are is the graph's affair (topology/graph.h), and when to mix the schedule's
// (strategy/schedule.h).
//
//   rule                     neighbours  waits  what
//   mean                     any         yes    w <- w + 2 step sum_j W_ij (w_j - w)
//   mean with a codec        any static  yes    the same on what everybody knows of everybody,
//                                               which coded differences keep up to date
//   mean, async              any         no     the same, with what has come so far
//   push-sum                 any         yes    parts of (w, number) go around a directed graph
//   outer                    any         yes    an optimizer steps along the mean change
//   outer with a codec       mesh        yes    the same along the mean of coded changes
//   sampled                  star        yes    the mean of some, weighted by their samples
//   elastic                  any, star   no     two move towards each other
//   elastic-push             any         no     who hears moves
//   sum-weight               any         no     who hears takes the mean, weighted by what the
//                                               two have heard before
//   updates                  any         no     changes of weights, coded, are added
//   penalty                  star        no     gradients pull towards the mean of all
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/staleness.h"
#include "codec/codec.h"
#include "mixing/mixing_settings.h"
#include "runtime/group.h"
#include "topology/neighbourhood.h"

namespace starling {

// What a worker has seen of the others. Workers' reports add up.
struct MixReport {
  std::uint64_t rounds = 0;   // begun
  std::uint64_t skipped = 0;  // not begun, as what was sent before had not left yet
  Staleness staleness;        // of others' models, means or changes of them, that were mixed in
  double squared_distance_sum = 0;  // from our weights to theirs, before they were mixed
  double final_share = 0;           // how much our weights counted in the final model

  std::uint64_t models() const { return staleness.count; }

  void mixed(std::uint64_t steps_old, double squared_distance = 0) {
    squared_distance_sum += squared_distance;
    staleness.add(steps_old);
  }
  MixReport& operator+=(const MixReport& other);
};

class Mixing {
 public:
  explicit Mixing(Group group) : group_(group) {}
  virtual ~Mixing() = default;

  // All workers have these weights now, unless they go on from a past, which each takes in before it
  // listens to others.
  virtual Task<> start(std::span<const float> weights, State past = {}) = 0;
  // Between two steps, when no round is under way. What is on its way by letter is not in it.
  virtual void visit_state(State state) { state("report", report_); }
  // Called after every step with how many steps this worker has done: takes in what has come.
  virtual void attend(std::span<float>) {}
  // A round. Rules that wait for nobody return at once.
  virtual Task<> mix(std::span<float> weights, std::uint64_t round) = 0;
  // What the worker has changed in its weights while a round was under way counts for so much
  // beside what the round has led to.
  virtual float share_of_changes() const { return 1; }
  // The worker goes on with these weights, which the last round has led to.
  virtual void joined(std::span<const float>) {}
  // After the last step: nothing is under way any more.
  virtual Task<> settle(std::span<float>) { co_return; }

  // What the rule adds to a stretch of the gradients, which begins at `offset`.
  virtual void bend(std::span<const float>, std::span<float>, std::size_t) {}
  // Whether this worker trains in that round.
  virtual bool takes_part(std::uint64_t) const { return true; }
  // How much this worker's weights count in the final model, and which these are.
  virtual float final_share() const { return 1; }
  virtual std::span<const float> final_weights(std::span<const float> own) const { return own; }

  void set_clock(std::uint64_t steps) { clock_ = steps; }
  MixReport& report() { return report_; }

 protected:
  std::uint64_t age(std::uint64_t clock) const { return clock_ > clock ? clock_ - clock : 0; }

  Group group_;
  std::uint64_t clock_ = 0;
  MixReport report_;
};

// What is known of a rule beforehand.
struct MixingRule {
  MixingSettings::Rule rule;
  bool in_rounds;       // it can go in rounds in which all take part
  bool by_letters;      // it can wait for nobody
  bool through_centre;  // it needs a star
  bool starts_alike;  // it counts on all having the same weights to begin with; with a codec all do
  std::unique_ptr<Mixing> (*make)(const MixingSettings& settings, Group group,
                                  std::uint64_t samples);
};
const MixingRule& mixing_rule(MixingSettings::Rule rule);

// `samples` is how many this worker has of its own, for rules that weigh by them.
std::unique_ptr<Mixing> make_mixing(const MixingSettings& settings, Group group,
                                    std::uint64_t samples);

// One function a rule, each in the file of its name.
std::unique_ptr<Mixing> make_mean_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_compressed_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_push_sum_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_outer_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_sampled_mixing(const MixingSettings& settings, Group group,
                                            std::uint64_t samples);
std::unique_ptr<Mixing> make_elastic_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_push_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_sum_weight_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_updates_mixing(const MixingSettings& settings, Group group);
std::unique_ptr<Mixing> make_penalty_mixing(const MixingSettings& settings, Group group);

// What a worker's codec of its weights or their changes may know of them.
CodecStream codec_stream(const MixingSettings& settings, Group group);

// outer with a codec: what the last round goes as.
CodecSettings codec_of_last_round(const CodecSettings& codec);

inline constexpr Channel kMixingChannel{0, Purpose::weights, "mixing weights"};

}  // namespace starling
