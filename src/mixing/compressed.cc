// mean with a codec (CHOCO-SGD; A. Koloskova et al., 2019). Every worker keeps a *public* copy of
// its weights, which is what its neighbours believe it has, and they keep the same copy. In a round
//
//   1. it sends the code of w_i - public_i to those who hear it,
//   2. everybody adds what the code says to the copies of public_i,
//   3. w_i <- w_i + 2 step sum_j W_ij (public_j - public_i).
//
// What a code leaves out stays in the difference and is sent later, so nothing is lost; and as
// step 3 uses public copies only, what one gains another loses, and the mean of all is kept. The
// step must be small where the codec is coarse, or the error of one round feeds the next.
//
// Without feedback step 1 codes what w_i has changed by since the last round, and what a code leaves
// out is never sent: public copies drift away from the weights they stand for.
#include <algorithm>
#include <vector>

#include "math/vector_math.h"
#include "mixing/mixing.h"
#include "runtime/all.h"

namespace starling {

namespace {

class CompressedMixing : public Mixing {
 public:
  CompressedMixing(const MixingSettings& settings, Group group)
      : Mixing(group),
        step_(settings.step),
        feedback_(settings.codec.feedback),
        neighbours_(settings.graph, group.rank()),
        codec_(make_codec(settings.codec, codec_stream(settings, group))) {}

  Task<> start(std::span<const float> weights, State past) override {
    own_.assign(weights.begin(), weights.end());
    if (!feedback_) last_ = own_;
    difference_.resize(weights.size());
    for (std::size_t i = 0; i < neighbours_.hears().size(); ++i) {
      heard_.emplace_back(neighbours_.hears()[i], 2 * step_ * neighbours_.weights()[i], own_);
    }
    for (Neighbour& neighbour : heard_) {
      neighbour.code.reserve(codec_->largest_code_bytes(weights.size()));
    }
    code_.reserve(codec_->largest_code_bytes(weights.size()));
    visit_state(past);
    co_return;
  }

  void visit_state(State state) override {
    Mixing::visit_state(state);
    state("own", own_);
    state("last", last_);
    for (std::size_t i = 0; i < heard_.size(); ++i)
      state.in("heard")(std::to_string(i), heard_[i].copy);
    codec_->visit_state(state.in("codec"));
  }

  Task<> mix(std::span<float> weights, std::uint64_t) override {
    ++report_.rounds;
    encode(weights);
    std::vector<Task<>> messages;
    for (int rank : neighbours_.tells()) messages.push_back(tell(rank));
    for (Neighbour& neighbour : heard_) messages.push_back(hear(neighbour));
    co_await all(std::move(messages));

    const auto decoding = group_.record(Timeline::Kind::encode, "decode");
    codec_->add_decoded(code_, own_);
    for (Neighbour& neighbour : heard_) {
      codec_->add_decoded(neighbour.code, neighbour.copy);
      subtract_scaled(weights, own_, static_cast<float>(neighbour.weight));
      subtract_scaled(weights, neighbour.copy, static_cast<float>(-neighbour.weight));
      report_.mixed(0, squared_distance(own_, neighbour.copy));
    }
  }

 private:
  struct Neighbour : Lender {
    Neighbour(int r, double w, std::vector<float> c) : rank(r), weight(w), copy(std::move(c)) {}
    std::optional<Bytes> lend(std::size_t bytes) override {
      code.resize(bytes);
      return code;
    }

    int rank;
    double weight;
    std::vector<float> copy;  // what we believe it has
    std::vector<std::byte> code;
  };

  void encode(std::span<const float> weights) {
    const auto encoding = group_.record(Timeline::Kind::encode, "encode");
    std::ranges::copy(weights, difference_.begin());
    subtract_scaled(difference_, feedback_ ? own_ : last_, 1);
    codec_->encode(difference_, code_);
    if (!feedback_) std::ranges::copy(weights, last_.begin());
  }

  Task<> tell(int rank) { co_await group_.send(rank, kMixingChannel, std::span(code_)); }
  Task<> hear(Neighbour& neighbour) {
    co_await group_.receive(neighbour.rank, kMixingChannel, {},
                            codec_->largest_code_bytes(own_.size()), neighbour);
  }

  double step_;
  bool feedback_;
  Neighbourhood neighbours_;
  std::unique_ptr<Codec> codec_;
  std::vector<float> own_;   // what our neighbours believe we have
  std::vector<float> last_;  // without feedback: our weights in the last round
  std::vector<float> difference_;
  std::vector<std::byte> code_;
  std::vector<Neighbour> heard_;
};

}  // namespace

std::unique_ptr<Mixing> make_compressed_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<CompressedMixing>(settings, group);
}

}  // namespace starling
