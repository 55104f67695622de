// elastic: a worker asks a partner; who is asked answers how far apart they are, and both move
// towards each other:
//
//   d = w_asking - w_asked     w_asked <- w_asked + beta d     w_asking <- w_asking - alpha d
//
// On a star the partner is the master's model, which rank 0 keeps beside its own and which is the
// final model (EASGD; S. Zhang et al., 2015); it answers at once, whatever rank 0 is doing. The answer
// is then the master's model itself, of which the worker that asked makes the distance and what the
// master has now: so that another can take the master's place (mixing/deputies.h). On any other graph it is one of the neighbours, drawn by the seed; with alpha = beta = 1/2 both then have
// the mean of the two (AD-PSGD; X. Lian et al., 2018). Nobody waits for an answer: the distance is applied to the weights as they are when it
// comes, so that with alpha = beta nothing is gained or lost.
//
// An answer goes out in the sheet that its question came in, so a worker may have no room until its
// answers have left. They cannot all wait for each other's room: everybody has room for two, and
// asks one question at a time.
#include <array>

#include "mixing/deputies.h"
#include "mixing/letter_mixing.h"

namespace starling {

namespace {

class ElasticMixing : public LetterMixing {
 public:
  ElasticMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group),
        alpha_(static_cast<float>(settings.alpha)),
        beta_(static_cast<float>(settings.beta > 0 ? settings.beta : settings.alpha)),
        has_master_(settings.graph.kind == GraphSettings::Kind::star),
        deputies_(group, kMaster) {}

  Task<> start(std::span<const float> weights, State past) override {
    if (has_master_) master_.assign(weights.begin(), weights.end());
    visit_state(past);
    open(weights.size_bytes());  // a letter may be here already
    co_return;
  }

  void attend(std::span<float> weights) override {
    LetterMixing::attend(weights);
    if (has_master_) deputies_.attend(meetings_, *letters_);
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    if (is_master()) {
      meet_the_master(weights);
    } else if (awaits_answer() || (has_master_ && !deputies_.has_master())) {
      ++report_.skipped;
    } else {
      ask(has_master_ ? deputies_.master() : random_neighbour(round), weights);
    }
    co_return;
  }

  Task<> settle(std::span<float> weights) override {
    co_await LetterMixing::settle(weights);
    if (is_master()) std::ranges::copy(master_, weights.begin());
  }

  float final_share() const override { return !has_master_ || is_master() ? 1 : 0; }
  std::span<const float> final_weights(std::span<const float> own) const override {
    return is_master() ? master_ : own;
  }

  void visit_state(State state) override {
    LetterMixing::visit_state(state);
    state("master", master_);
    state("meetings", meetings_);
  }

 private:
  static constexpr std::uint32_t kQuestion = 0, kAnswer = 1;

  bool is_master() const { return has_master_ && deputies_.is_master(); }
  bool awaits_answer() const override { return asked_ && !group_.is_lost(*asked_); }

  void ask(std::optional<int> partner, std::span<const float> weights) {
    LetterHeader question;
    question.kind = kQuestion;
    SharedSheet copy;
    if (!partner || !try_send(*partner, question, std::as_bytes(weights), copy)) return;
    asked_ = partner;
    asked_at_ = clock_;
    if (!has_master_) return;
    copy->take_from_shelf();
    question_ = copy;
  }

  bool read(const Letter& letter, std::span<float> weights) override {
    if (letter.header.kind == Deputies::kStanding || letter.header.kind == Deputies::kMasterIs) {
      return deputies_.read(letter, *letters_);
    }
    if (letter.header.kind == kQuestion) return answer(letter, weights);
    if (asked_ != letter.from) return true;
    const std::span<float> values = model_in(letter, weights.size());
    const std::span<float> distance = has_master_ ? question_->floats() : values;
    if (has_master_) {
      subtract_scaled(distance, values, 1);
      std::ranges::copy(values, master_.begin());
      subtract_scaled(master_, distance, -beta_);
      meetings_ = letter.header.clock;
    }
    subtract_scaled(weights, distance, alpha_);
    report_.mixed(age(asked_at_),
                  std::inner_product(distance.begin(), distance.end(), distance.begin(), 0.0));
    asked_.reset();
    question_.reset();
    return true;
  }

  bool read_at_once(const Letter& letter) override {
    return is_master() && letter.header.kind == kQuestion && answer(letter, {});
  }

  bool answer(const Letter& letter, std::span<float> weights) {
    if (has_master_) deputies_.was_asked();
    const bool can_answer = letters_->can_send(letter.from) && (!has_master_ || is_master());
    if (!can_answer) return group_.is_lost(letter.from);
    LetterHeader header;
    header.kind = kAnswer;
    if (has_master_) {
      answer_as_master(letter);
      header.clock = ++meetings_;
    } else {
      answer_as_neighbour(letter, weights);
    }
    letters_->send(letter.from, header, letter.sheet);
    return true;
  }

  // Our model before they met goes back where theirs was.
  void answer_as_master(const Letter& letter) {
    const std::span<float> theirs = model_in(letter, master_.size());
    note(letter, master_, theirs);
    in_pieces(master_.size(), [&](std::size_t begin, std::span<float> distance) {
      const std::span<float> own = std::span(master_).subspan(begin, distance.size());
      const std::span<float> letters = theirs.subspan(begin, distance.size());
      std::ranges::copy(letters, distance.begin());
      subtract_scaled(distance, own, 1);
      std::ranges::copy(own, letters.begin());
      subtract_scaled(own, distance, -beta_);
    });
  }

  // The distance is written over the question and goes back in its place.
  void answer_as_neighbour(const Letter& letter, std::span<float> ours) {
    const std::span<float> distance = model_in(letter, ours.size());
    note(letter, ours, distance);
    if (asked_ == letter.from && group_.rank() < letter.from) {
      // We have asked each other: if both questions counted, each would go all of the way and they
      // would trade places. Ours counts.
      std::ranges::fill(distance, 0.0f);
    } else {
      subtract_scaled(distance, ours, 1);
      subtract_scaled(ours, distance, -beta_);
    }
  }

  void meet_the_master(std::span<float> weights) {
    in_pieces(weights.size(), [&](std::size_t begin, std::span<float> distance) {
      const std::span<float> own = weights.subspan(begin, distance.size());
      const std::span<float> master = std::span(master_).subspan(begin, distance.size());
      std::ranges::copy(own, distance.begin());
      subtract_scaled(distance, master, 1);
      subtract_scaled(master, distance, -beta_);
      subtract_scaled(own, distance, alpha_);
    });
  }

  // Little memory for distances, used again and again: piece(begin, memory).
  template <class Piece>
  static void in_pieces(std::size_t size, const Piece& piece) {
    std::array<float, 4096> memory;
    for (std::size_t begin = 0; begin < size; begin += memory.size()) {
      piece(begin, std::span(memory).first(std::min(memory.size(), size - begin)));
    }
  }

  float alpha_, beta_;
  bool has_master_;
  Deputies deputies_;
  std::vector<float> master_;   // at the others: what they know of it,
  std::uint64_t meetings_ = 0;  // after so many answers
  std::optional<int> asked_;
  std::uint64_t asked_at_ = 0;
  SharedSheet question_;  // what the master was asked
};

}  // namespace

std::unique_ptr<Mixing> make_elastic_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<ElasticMixing>(settings, group);
}

}  // namespace starling
