// mean, async, and elastic-push (TreeEASGD; S. Zhang et al., 2015): workers send their weights to
// those who hear them and go on. Who hears takes in what has come, one model after the other:
//
//   w_i <- w_i + a (w_j - w_i)
//
// with a = alpha, or for the mean, what the graph's weights say. In a tree, how often weights go up
// and down may depend on how deep a worker stands.
#include <algorithm>
#include <map>

#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class PushMixing : public LetterMixing {
 public:
  PushMixing(const MixingSettings& settings, Group group) : LetterMixing(settings, group) {
    int depth = 0;
    for (int rank = group.rank(); rank > 0; ++depth) rank = (rank - 1) / settings.graph.arity;
    rounds_up_ = at_depth(settings.rounds_up, depth - 1);
    rounds_down_ = at_depth(settings.rounds_down, depth);
    for (std::uint64_t round = 0; round < neighbours_.rounds(); ++round) {
      const std::span<const int> heard = neighbours_.hears(round);
      for (std::size_t i = 0; i < heard.size(); ++i) {
        weight_of_[heard[i]] = settings.rule == MixingSettings::Rule::elastic_push
                                   ? settings.alpha
                                   : 2 * settings.step * neighbours_.weights(round)[i];
      }
    }
  }

  Task<> start(std::span<const float> weights, State past) override {
    visit_state(past);
    open(weights.size_bytes());
    co_return;
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    SharedSheet copy;
    for (int rank : neighbours_.tells(round)) {
      const bool down = rank > group_.rank();
      if ((round + 1) % (down ? rounds_down_ : rounds_up_) != 0) continue;
      try_send(rank, {}, std::as_bytes(weights), copy);
    }
    co_return;
  }

 private:
  static std::uint64_t at_depth(const std::vector<int>& rounds, int depth) {
    if (rounds.empty()) return 1;
    const auto last = static_cast<int>(rounds.size()) - 1;
    return static_cast<std::uint64_t>(rounds[static_cast<std::size_t>(std::clamp(depth, 0, last))]);
  }

  bool read(const Letter& letter, std::span<float> weights) override {
    const std::span<const float> model = model_in(letter, weights.size());
    note(letter, weights, model);
    const double weight = weight_of_[letter.from];
    blend(weights, model, static_cast<float>(weight));
    return true;
  }

  std::uint64_t rounds_up_, rounds_down_;
  std::map<int, double> weight_of_;  // each rank's model, when it comes
};

}  // namespace

std::unique_ptr<Mixing> make_push_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<PushMixing>(settings, group);
}

}  // namespace starling
