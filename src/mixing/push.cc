// mean, async, and elastic-push (TreeEASGD; S. Zhang et al., 2015): workers send their weights to
// those who hear them and go on. Who hears takes in what has come, one model after the other:
//
//   w_i <- w_i + a (w_j - w_i)
//
// with a = alpha, or for the mean, what the graph's weights say. In a tree, weights may go down
// less often than up.
#include <map>

#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class PushMixing : public LetterMixing {
 public:
  PushMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group), settings_(settings) {
    for (std::uint64_t round = 0; round < neighbours_.rounds(); ++round) {
      const std::span<const int> heard = neighbours_.hears(round);
      for (std::size_t i = 0; i < heard.size(); ++i) {
        weight_of_[heard[i]] = settings.rule == MixingSettings::Rule::elastic_push
                                   ? settings.alpha
                                   : 2 * settings.step * neighbours_.weights(round)[i];
      }
    }
  }

  Task<> start(std::span<const float> weights) override {
    open(weights.size_bytes());
    co_return;
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    SharedSheet copy;
    for (int rank : neighbours_.tells(round)) {
      const bool down = rank > group_.rank();
      const auto rounds_down = static_cast<std::uint64_t>(settings_.rounds_down);
      if (down && (round + 1) % rounds_down != 0) continue;
      try_send(rank, {}, std::as_bytes(weights), copy);
    }
    co_return;
  }

 private:
  bool read(const Letter& letter, std::span<float> weights) override {
    const std::span<const float> model = model_in(letter, weights.size());
    note(letter, weights, model);
    const double weight = weight_of_[letter.from];
    blend(weights, model, static_cast<float>(weight));
    return true;
  }

  MixingSettings settings_;
  std::map<int, double> weight_of_;  // each rank's model, when it comes
};

}  // namespace

std::unique_ptr<Mixing> make_push_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<PushMixing>(settings, group);
}

}  // namespace starling
