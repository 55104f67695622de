// elastic: a worker asks a partner; who is asked answers how far apart they are, and both move
// towards each other:
//
//   d = w_asking - w_asked     w_asked <- w_asked + beta d     w_asking <- w_asking - alpha d
//
// On a star the partner is the master's model, which rank 0 keeps beside its own and which is the
// final model (EASGD; S. Zhang et al., 2015); it answers at once, whatever rank 0 is doing. On any
// other graph it is one of the neighbours, drawn by the seed; with alpha = beta = 1/2 both then have
// the mean of the two (AD-PSGD; X. Lian et al., 2018). Nobody waits for an answer: the distance is applied to the weights as they are when it
// comes, so that with alpha = beta nothing is gained or lost.
//
// An answer goes out in the sheet that its question came in, so a worker may have no room until its
// answers have left. They cannot all wait for each other's room: everybody has room for two, and
// asks one question at a time.
#include <array>

#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class ElasticMixing : public LetterMixing {
 public:
  ElasticMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group),
        alpha_(static_cast<float>(settings.alpha)),
        beta_(static_cast<float>(settings.beta > 0 ? settings.beta : settings.alpha)),
        has_master_(settings.graph.kind == GraphSettings::Kind::star) {}

  Task<> start(std::span<const float> weights) override {
    if (is_master()) master_.assign(weights.begin(), weights.end());
    open(weights.size_bytes());  // a letter may be here already
    co_return;
  }

  void attend(std::span<float> weights) override {
    if (has_master_) need_the_master();
    LetterMixing::attend(weights);
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    if (is_master()) {
      meet_the_master(weights);
    } else if (awaits_answer()) {
      ++report_.skipped;
    } else {
      const std::optional<int> partner =
          has_master_ ? std::optional<int>(kMaster) : random_neighbour(round);
      LetterHeader question;
      question.kind = kQuestion;
      if (partner && try_send(*partner, question, std::as_bytes(weights))) asked_ = partner;
    }
    co_return;
  }

  Task<> settle(std::span<float> weights) override {
    co_await LetterMixing::settle(weights);
    if (is_master()) std::ranges::copy(master_, weights.begin());
  }

  float final_share() const override { return !has_master_ || is_master() ? 1 : 0; }

 private:
  static constexpr std::uint32_t kQuestion = 0, kAnswer = 1;

  bool is_master() const { return has_master_ && group_.rank() == kMaster; }
  bool awaits_answer() const override { return asked_ && !group_.is_lost(*asked_); }

  bool read(const Letter& letter, std::span<float> weights) override {
    if (letter.header.kind == kQuestion) return answer(letter, is_master() ? master_ : weights);
    const std::span<float> values = model_in(letter, weights.size());
    subtract_scaled(weights, values, alpha_);
    const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    report_.mixed(age(letter.header.clock), square);
    asked_.reset();
    return true;
  }

  bool read_at_once(const Letter& letter) override {
    return is_master() && answer(letter, master_);
  }

  // The distance is written over the question and goes back in its place.
  bool answer(const Letter& letter, std::span<float> ours) {
    const std::span<float> theirs = model_in(letter, ours.size());
    if (!letters_->can_send(letter.from)) return group_.is_lost(letter.from);
    note(letter, ours, theirs);
    const std::span<float> distance = theirs;
    if (asked_ == letter.from && group_.rank() < letter.from) {
      // We have asked each other: if both questions counted, each would go all of the way and they
      // would trade places. Ours counts.
      std::ranges::fill(distance, 0.0f);
    } else {
      subtract_scaled(distance, ours, 1);
      subtract_scaled(ours, distance, -beta_);
    }
    LetterHeader header;
    header.kind = kAnswer;
    header.clock = letter.header.clock;  // what it is the answer to
    letters_->send(letter.from, header, letter.sheet);
    return true;
  }

  void meet_the_master(std::span<float> weights) {
    std::array<float, 4096> memory;
    for (std::size_t begin = 0; begin < weights.size(); begin += memory.size()) {
      const std::size_t size = std::min(memory.size(), weights.size() - begin);
      const std::span<float> own = weights.subspan(begin, size);
      const std::span<float> master = std::span<float>(master_).subspan(begin, size);
      const std::span<float> distance = std::span<float>(memory).first(size);
      std::ranges::copy(own, distance.begin());
      subtract_scaled(distance, master, 1);
      subtract_scaled(master, distance, -beta_);
      subtract_scaled(own, distance, alpha_);
    }
  }

  float alpha_, beta_;
  bool has_master_;
  std::vector<float> master_;
  std::optional<int> asked_;
};

}  // namespace

std::unique_ptr<Mixing> make_elastic_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<ElasticMixing>(settings, group);
}

}  // namespace starling
