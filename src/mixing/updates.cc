// updates (deeplearning4j's gradient sharing; N. Strom, 2015): workers send each other what their
// own optimizers have changed, coded, and add what comes to their weights. What a code leaves out,
// and what could not be sent because the last code had not left yet, waits in the residual. Without
// feedback what a code leaves out is the worker's own business from then on.
//
// Everybody's changes add up in everybody's weights, so n workers take n steps at once: the
// learning rate must be chosen for that.
#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class UpdatesMixing : public LetterMixing {
 public:
  UpdatesMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group),
        feedback_(settings.codec.feedback),
        codec_(make_codec(settings.codec, codec_stream(settings, group))) {}

  Task<> start(std::span<const float> weights, State past) override {
    open(codec_->largest_code_bytes(weights.size()));
    before_.assign(weights.begin(), weights.end());
    residual_.assign(weights.size(), 0);
    visit_state(past);
    co_return;
  }

  void visit_state(State state) override {
    LetterMixing::visit_state(state);
    state("before", before_);
    state("residual", residual_);
    codec_->visit_state(state.in("codec"));
  }

  // Our own change goes to the residual before others' come in.
  void attend(std::span<float> weights) override {
    add(residual_, weights);
    subtract_scaled(residual_, before_, 1);
    LetterMixing::attend(weights);
    std::ranges::copy(weights, before_.begin());
  }

  Task<> mix(std::span<float>, std::uint64_t round) override {
    ++report_.rounds;
    const std::span<const int> told = neighbours_.tells(round);
    const bool free = std::ranges::all_of(
        told, [this](int rank) { return group_.is_lost(rank) || letters_->can_send(rank); });
    if (!free || !letters_->can_write()) {  // what is encoded must be sent
      ++report_.skipped;
      co_return;
    }
    {
      const auto encoding = group_.record(Timeline::Kind::encode, "encode");
      codec_->encode(residual_, code_);
      if (!feedback_) std::ranges::fill(residual_, 0.0f);
    }
    SharedSheet copy;
    for (int rank : told) {
      if (!group_.is_lost(rank)) try_send(rank, {}, code_, copy);
    }
  }

 private:
  bool read(const Letter& letter, std::span<float> weights) override {
    const auto decoding = group_.record(Timeline::Kind::encode, "decode");
    codec_->add_decoded(letter.sheet->bytes(), weights);
    report_.mixed(age(letter.header.clock));
    return true;
  }

  bool feedback_;
  std::unique_ptr<Codec> codec_;
  std::vector<float> before_;    // the weights after the last step
  std::vector<float> residual_;  // what the others do not know of yet
  std::vector<std::byte> code_;
};

}  // namespace

std::unique_ptr<Mixing> make_updates_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<UpdatesMixing>(settings, group);
}

}  // namespace starling
