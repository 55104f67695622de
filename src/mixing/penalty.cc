// penalty (after MPCA-SGD; M. Langer et al., 2018): every worker descends on its loss plus
// penalty/2 |w_i - m|^2, where m is the master's model, the mean of all. Models go up and down a
// binomial tree while the workers go on, with the master at its root, which is the lowest rank that is
// left: everybody has its model, and the next one goes on with that.
//
//   up    a worker sends its parent the mean of its own weights and of what its children have last
//         sent, and how many models that is the mean of
//   down  the master's own such mean is passed on to everybody
//
// What arrives is old by then, so it is extrapolated along the path that the master has lately
// taken:
//
//   m <- m_k + min(1, age / interval) (m_k - m_{k-1})
//
// The master speaks when more than half of the workers have written since it last did. Parents need
// the last that each child has sent: a letter takes the place of its writer's last one, and that of
// a lost worker counts no more, which a running sum could not tell. They stay in the sheets they
// came in, and so does the master's model.
#include <algorithm>

#include "mixing/letter_mixing.h"
#include "topology/binomial_tree.h"

namespace starling {

namespace {

class PenaltyMixing : public LetterMixing {
 public:
  PenaltyMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group),
        penalty_(static_cast<float>(settings.penalty)),
        branches_(static_cast<std::size_t>(group.size())) {}

  Task<> start(std::span<const float> weights, State past) override {
    model_ = newest_ = own_ = copy_of(weights);
    has_own_ = is_master();
    visit_state(past);
    open(weights.size_bytes(), 1);  // a letter may be here already
    co_return;
  }

  void attend(std::span<float> weights) override {
    LetterMixing::attend(weights);
    adopt_newest(weights);
  }

  Task<> mix(std::span<float> weights, std::uint64_t) override {
    ++report_.rounds;
    if (is_master()) {
      own_ = copy_of(weights);
      has_own_ = own_is_new_ = true;
      speak_if_due();
      adopt_newest(weights);
    } else {
      write_to_parent(weights);
    }
    co_return;
  }

  // What others have sent up is not in it: they will send again.
  void visit_state(State state) override {
    LetterMixing::visit_state(state);
    state("model", model_->floats());
    state("model_clock", model_clock_);
    state("ahead", ahead_);
    bool is_ahead = before_ != nullptr;
    state("is_ahead", is_ahead);
    if (is_ahead && !before_) before_ = copy_of(model_->floats());
    if (is_ahead) state("before", before_->floats());
    newest_clock_ = std::max(newest_clock_, model_clock_);
  }

  Task<> settle(std::span<float> weights) override {
    settling_ = true;
    co_await LetterMixing::settle(weights);
  }

  void bend(std::span<const float> weights, std::span<float> gradients,
            std::size_t offset) override {
    const auto part = [&](const SharedSheet& sheet) {
      return sheet->floats().subspan(offset, gradients.size());
    };
    subtract_scaled(gradients, weights.first(gradients.size()), -penalty_);
    subtract_scaled(gradients, part(model_), penalty_ * (1 + ahead_));
    if (before_) subtract_scaled(gradients, part(before_), -penalty_ * ahead_);
  }

 private:
  static constexpr std::uint32_t kUp = 0, kDown = 1;

  // What a rank has last sent up, of itself and those below it.
  struct Branch {
    SharedSheet mean;
    float models = 0;     // that it is the mean of
    bool is_new = false;  // to the master, since it last spoke
  };

  SharedSheet copy_of(std::span<const float> weights) const {
    auto sheet = std::make_shared<Sheet>(group_, weights.size_bytes());
    std::ranges::copy(weights, sheet->floats().begin());
    return sheet;
  }

  bool read(const Letter& letter, std::span<float>) override { return read_at_once(letter); }

  bool read_at_once(const Letter& letter) override {
    const std::span<const float> model = model_in(letter, own_->floats().size());
    letter.sheet->take_from_shelf();
    if (letter.header.kind == kDown) {
      pass_on(letter.sheet, letter.header.clock);
      return true;
    }
    const float models = letter.header.weight;
    if (!(models >= 1 && models < static_cast<float>(group_.size()))) {
      throw Error(fmt::format("rank {} sent the mean of {} models", letter.from, models),
                  "all workers must run the same program with the same settings");
    }
    branches_[static_cast<std::size_t>(letter.from)] = {letter.sheet, models, true};
    if (is_master()) {
      note(letter, own_->floats(), model);
      speak_if_due();
    }
    return true;
  }

  void write_to_parent(std::span<const float> weights) {
    const Tree tree = tree_of_those_left();
    const int parent = tree.left[static_cast<std::size_t>(tree_parent(tree.place))];
    if (!letters_->can_send(parent) || !letters_->can_write()) {
      ++report_.skipped;
      return;
    }
    const SharedSheet sheet = letters_->write(std::as_bytes(weights));
    LetterHeader header;
    header.kind = kUp;
    header.clock = clock_;
    header.weight = mix_in_children(sheet->floats(), tree);
    letters_->send(parent, header, sheet);
  }

  bool is_master() const {
    for (int rank = 0; rank < group_.rank(); ++rank) {
      if (!group_.is_lost(rank)) return false;
    }
    return true;
  }

  // At the master, whose own last model is the one it last mixed, as everybody's is.
  void speak_if_due() {
    if (!has_own_) return;  // it has just become the master
    const Tree tree = tree_of_those_left();
    float written = own_is_new_ ? 1 : 0;
    for (int child : tree.children()) {
      const Branch& branch = branches_[static_cast<std::size_t>(child)];
      if (branch.is_new) written += branch.models;
    }
    if (2 * written <= static_cast<float>(tree.left.size())) return;
    own_is_new_ = false;
    for (Branch& branch : branches_) branch.is_new = false;
    const SharedSheet mean = copy_of(own_->floats());
    mix_in_children(mean->floats(), tree);
    // The master before us may have been ahead of us.
    pass_on(mean, std::max(clock_, newest_clock_));
  }

  // Between two steps, so that all of a step's gradients are pulled the same way.
  void adopt_newest(std::span<const float> weights) {
    if (model_ == newest_) return;
    const auto interval =
        static_cast<double>(std::max<std::uint64_t>(1, newest_clock_ - model_clock_));
    const std::uint64_t old = age(newest_clock_);
    if (!is_master()) {
      report_.mixed(old, squared_distance(weights, newest_->floats()));
    }
    ahead_ = static_cast<float>(std::min(1.0, static_cast<double>(old) / interval));
    before_ = ahead_ > 0 ? model_ : nullptr;
    model_ = newest_;
    model_clock_ = newest_clock_;
  }

  // The tree over those who are left, of which the master is the first.
  struct Tree {
    std::vector<int> left;
    int place = 0;  // our own

    std::vector<int> children() const {
      std::vector<int> ranks;
      const auto size = static_cast<int>(left.size());
      for (int k = 1; k < tree_reach(place, size) && place + k < size; k *= 2) {
        ranks.push_back(left[static_cast<std::size_t>(place + k)]);
      }
      return ranks;
    }
  };
  Tree tree_of_those_left() const {
    Tree tree;
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank == group_.rank()) tree.place = static_cast<int>(tree.left.size());
      if (!group_.is_lost(rank)) tree.left.push_back(rank);
    }
    return tree;
  }

  // Makes of one model the mean of it and of what the children have sent; returns of how many.
  float mix_in_children(std::span<float> mean, const Tree& tree) const {
    float models = 1;
    for (int child : tree.children()) {
      const Branch& branch = branches_[static_cast<std::size_t>(child)];
      if (!branch.mean) continue;
      models += branch.models;
      blend(mean, branch.mean->floats(), branch.models / models);
    }
    return models;
  }

  // Keeps the master's model, and sends it to the children.
  void pass_on(const SharedSheet& model, std::uint64_t clock) {
    if (settling_ || clock < newest_clock_) return;  // nobody needs it any more
    newest_ = model;
    newest_clock_ = clock;
    for (int child : tree_of_those_left().children()) {
      if (!letters_->can_send(child)) {  // a newer one will come
        ++report_.skipped;
        continue;
      }
      LetterHeader header;
      header.kind = kDown;
      header.clock = clock;
      letters_->send(child, header, model);
    }
  }

  float penalty_;
  bool settling_ = false;
  SharedSheet newest_, model_, before_;  // the master's that came last, the one in use, and the one
                                         // before that if we are ahead of it
  float ahead_ = 0;                      // by how much of the way from that one to the one in use
  std::uint64_t newest_clock_ = 0, model_clock_ = 0;
  std::vector<Branch> branches_;
  SharedSheet own_;  // at the master: that worker's
  bool has_own_ = false;
  bool own_is_new_ = false;
};

}  // namespace

std::unique_ptr<Mixing> make_penalty_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<PenaltyMixing>(settings, group);
}

}  // namespace starling
