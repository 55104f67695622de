// penalty (after MPCA-SGD; M. Langer et al., 2018): every worker descends on its loss plus
// penalty/2 |w_i - m|^2, where m is the master's model. Workers send the master their weights and
// go on; the master, which rank 0 keeps, takes the mean of the last it has of each and sends it
// down a binomial tree, while they go on. What arrives is old by then, so it is extrapolated along
// the path that the master has lately taken:
//
//   m <- m_k + min(1, age / interval) (m_k - m_{k-1})
//
// The master speaks when more than half of the workers have written since it last did. It needs the
// last model of each: a letter takes the place of its writer's last one, and a lost worker's counts
// no more, which a running sum could not tell. They stay in the sheets they came in, and so does
// the master's model with the workers.
#include <algorithm>

#include "mixing/letter_mixing.h"
#include "topology/binomial_tree.h"

namespace starling {

namespace {

class PenaltyMixing : public LetterMixing {
 public:
  PenaltyMixing(const MixingSettings& settings, Group group)
      : LetterMixing(settings, group), penalty_(static_cast<float>(settings.penalty)) {}

  Task<> start(std::span<const float> weights) override {
    open(weights.size_bytes(), 1);
    model_ = std::make_shared<Sheet>(group_, weights.size_bytes());
    std::ranges::copy(weights, model_->floats().begin());
    if (group_.rank() == kMaster) {
      latest_.assign(static_cast<std::size_t>(group_.size()), model_);
      latest_[kMaster].reset();
      written_.assign(latest_.size(), false);
    }
    co_return;
  }

  void attend(std::span<float> weights) override {
    need_the_master();
    LetterMixing::attend(weights);
  }

  Task<> mix(std::span<float> weights, std::uint64_t) override {
    ++report_.rounds;
    if (group_.rank() == kMaster) {
      hear(kMaster, weights);
    } else {
      LetterHeader header;
      header.kind = kWorkers;
      try_send(kMaster, header, std::as_bytes(weights));
    }
    co_return;
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
  static constexpr std::uint32_t kWorkers = 0, kMasters = 1;

  bool read(const Letter& letter, std::span<float> weights) override {
    const std::span<const float> model = model_in(letter, weights.size());
    if (letter.header.kind == kWorkers && group_.rank() != kMaster) {
      throw Error(fmt::format("rank {} took rank {} for the master", letter.from, group_.rank()),
                  "all workers must run the same program with the same settings");
    }
    note(letter, weights, model);
    letter.sheet->take_from_shelf();
    if (letter.header.kind == kWorkers) {
      latest_[static_cast<std::size_t>(letter.from)] = letter.sheet;
      hear(letter.from, weights);
    } else {
      adopt(letter.sheet, letter.header.clock);
      pass_on(letter.sheet, letter.header.clock);
    }
    return true;
  }

  // At the master, whose own last model is its weights as they are.
  void hear(int writer, std::span<const float> weights) {
    written_[static_cast<std::size_t>(writer)] = true;
    const int left = group_.size() - group_.lost_count();
    if (2 * std::ranges::count(written_, true) <= left) return;
    written_.assign(written_.size(), false);
    const auto mean = std::make_shared<Sheet>(group_, weights.size_bytes());
    std::ranges::copy(weights, mean->floats().begin());
    for (int rank = 1; rank < group_.size(); ++rank) {
      const SharedSheet& latest = latest_[static_cast<std::size_t>(rank)];
      if (!group_.is_lost(rank)) add(mean->floats(), latest->floats());
    }
    scale(mean->floats(), 1.0f / static_cast<float>(left));
    adopt(mean, clock_);
    pass_on(mean, clock_);
  }

  void adopt(const SharedSheet& model, std::uint64_t clock) {
    if (clock < model_clock_) return;  // overtaken on its way down
    const double interval = static_cast<double>(std::max<std::uint64_t>(1, clock - model_clock_));
    ahead_ = static_cast<float>(std::min(1.0, static_cast<double>(age(clock)) / interval));
    before_ = ahead_ > 0 ? model_ : nullptr;
    model_ = model;
    model_clock_ = clock;
  }

  // Down the tree over those who are left, of which the master is the first.
  void pass_on(const SharedSheet& model, std::uint64_t clock) {
    if (settling_) return;  // nobody trains on it any more
    std::vector<int> left;
    int place = 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank == group_.rank()) place = static_cast<int>(left.size());
      if (!group_.is_lost(rank)) left.push_back(rank);
    }
    const auto size = static_cast<int>(left.size());
    for (int k = 1; k < tree_reach(place, size) && place + k < size; k *= 2) {
      const int child = left[static_cast<std::size_t>(place + k)];
      if (!letters_->can_send(child)) {  // a newer one will come
        ++report_.skipped;
        continue;
      }
      LetterHeader header;
      header.kind = kMasters;
      header.clock = clock;
      letters_->send(child, header, model);
    }
  }

  float penalty_;
  bool settling_ = false;
  SharedSheet model_, before_;  // the master's last, and the one before if we are ahead of it
  float ahead_ = 0;             // by how much of the way from that one to the last
  std::uint64_t model_clock_ = 0;
  std::vector<SharedSheet> latest_;  // at the master: what it has last heard of the others
  std::vector<bool> written_;
};

}  // namespace

std::unique_ptr<Mixing> make_penalty_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<PenaltyMixing>(settings, group);
}

}  // namespace starling
