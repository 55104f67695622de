// mean, async, and elastic-push (TreeEASGD; S. Zhang et al., 2015): workers send their weights to
// those who hear them and go on. Who hears takes in what has come, one model after the other:
//
//   w_i <- w_i + a (w_j - w_i)
//
// with a = alpha, or for the mean, what the graph's weights say. In a tree, weights may go down
// less often than up.
#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class PushMixing : public LetterMixing {
 public:
  PushMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group), settings_(settings) {
    for (std::uint64_t round = 0; round < graph_.rounds(); ++round) {
      const Matrix matrix = mixing_weights(graph_, round);
      const std::vector<double>& row = matrix[static_cast<std::size_t>(group.rank())];
      weight_of_.resize(row.size());
      for (int rank : graph_.hears(group.rank(), round)) {
        const auto from = static_cast<std::size_t>(rank);
        weight_of_[from] =
            settings.rule == "elastic-push" ? settings.alpha : 2 * settings.step * row[from];
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
    for (int rank : graph_.tells(group_.rank(), round)) {
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
    const double weight = weight_of_[static_cast<std::size_t>(letter.from)];
    blend(weights, model, static_cast<float>(weight));
    return true;
  }

  MixingSettings settings_;
  std::vector<double> weight_of_;  // each rank's model, when it comes
};

}  // namespace

std::unique_ptr<Mixing> make_push_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<PushMixing>(settings, group);
}

}  // namespace starling
