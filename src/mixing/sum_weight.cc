// sum-weight (GoSGD; M. Blot et al., 2016): every worker has a weight a_i, 1/n at first. Who sends
// halves it and sends the other half along with its model, to one neighbour, drawn by the seed. Who
// hears takes the mean of both models weighted by both weights, and the sum for its own:
//
//   w_i <- (a_i w_i + a_j w_j) / (a_i + a_j)     a_i <- a_i + a_j
//
// So the weights of all workers and of all letters on their way are 1 together. A letter that never
// left gives its weight back; a lost worker takes its own with it, and the final model is the mean
// over those who are left, weighted by theirs. Who goes on from a past forgets the letters that were
// on their way, so that all begin by making their weights 1 together again.
#include "exchange/allreduce.h"
#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class SumWeightMixing : public LetterMixing {
 public:
  SumWeightMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group), weight_(1.0f / static_cast<float>(group.size())) {}

  Task<> start(std::span<const float> weights, State past) override {
    visit_state(past);
    if (past.restores_all()) {
      float sum = weight_;
      co_await doubling_allreduce(group_, kMixingChannel, std::span(&sum, 1), Reduction::sum);
      weight_ /= sum;
    }
    open(weights.size_bytes());
    letters_->on_return([this](const LetterHeader& header) { weight_ += header.weight; });
    co_return;
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    const std::optional<int> peer = random_neighbour(round);
    if (!peer) co_return;
    if (weight_ < kLeast) {  // who hears nothing for long would soon send nothing
      ++report_.skipped;
      co_return;
    }
    LetterHeader half;
    half.weight = weight_ / 2;
    // Before it is sent: a letter that comes back at once must find the half taken away.
    weight_ -= half.weight;
    if (!try_send(*peer, half, std::as_bytes(weights))) weight_ += half.weight;
  }

  float final_share() const override { return weight_; }

  void visit_state(State state) override {
    LetterMixing::visit_state(state);
    state("weight", weight_);
  }

 private:
  static constexpr float kLeast = 1e-30f;

  bool read(const Letter& letter, std::span<float> weights) override {
    const std::span<const float> model = model_in(letter, weights.size());
    note(letter, weights, model);
    const float sum = weight_ + letter.header.weight;
    if (!(letter.header.weight > 0 && sum <= 1.01f)) {
      throw Error(
          fmt::format("rank {} sent a model of weight {}", letter.from, letter.header.weight),
          "all workers must run the same program");
    }
    blend(weights, model, letter.header.weight / sum);
    weight_ = sum;
    return true;
  }

  float weight_;
};

}  // namespace

std::unique_ptr<Mixing> make_sum_weight_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<SumWeightMixing>(settings, group);
}

}  // namespace starling
