// penalty (after MPCA-SGD; M. Langer et al., 2018): every worker descends on its loss plus
// penalty/2 |w_i - m|^2, where m is the master's model. Workers send the master their weights and
// go on; the master, which rank 0 keeps, takes the mean of the last it has of each and sends it
// down a binomial tree, while they go on. What arrives is old by then, so it is extrapolated along
// the path that the master has lately taken:
//
//   m <- m_k + min(1, age / interval) (m_k - m_{k-1})
//
// The master speaks when more than half of the workers have written since it last did.
#include <algorithm>

#include "mixing/letter_mixing.h"
#include "topology/binomial_tree.h"

namespace starling {

namespace {

class PenaltyMixing : public LetterMixing {
 public:
  PenaltyMixing(const MixingSettings& settings, Comm& comm)
      : LetterMixing(settings, comm), penalty_(static_cast<float>(settings.penalty)) {}

  Task<> start(std::span<const float> weights) override {
    open(weights.size_bytes());
    model_.assign(weights.begin(), weights.end());
    target_ = model_;
    if (comm_.rank() == kMaster) {
      latest_.assign(static_cast<std::size_t>(comm_.size()), model_);
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
    if (comm_.rank() == kMaster) {
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
    const auto target = std::span<const float>(target_).subspan(offset, gradients.size());
    subtract_scaled(gradients, weights.first(gradients.size()), -penalty_);
    subtract_scaled(gradients, target, penalty_);
  }

 private:
  static constexpr std::uint32_t kWorkers = 0, kMasters = 1;

  bool read(const Letter& letter, std::span<float> weights) override {
    const std::span<const float> model = model_in(letter, weights.size());
    if (letter.header.kind == kWorkers && comm_.rank() != kMaster) {
      throw Error(fmt::format("rank {} took rank {} for the master", letter.from, comm_.rank()),
                  "all workers must run the same program with the same settings");
    }
    if (letter.header.kind == kWorkers) {
      note(letter, weights, model);
      hear(letter.from, model);
    } else {
      note(letter, weights, model);
      adopt(model, letter.header.clock);
      pass_on(model, letter.header.clock);
    }
    return true;
  }

  // At the master.
  void hear(int worker, std::span<const float> model) {
    std::ranges::copy(model, latest_[static_cast<std::size_t>(worker)].begin());
    written_[static_cast<std::size_t>(worker)] = true;
    const int left = comm_.size() - comm_.lost_count();
    if (2 * std::ranges::count(written_, true) <= left) return;
    written_.assign(written_.size(), false);
    mean_.assign(model.size(), 0);
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (!comm_.is_lost(rank)) add(mean_, latest_[static_cast<std::size_t>(rank)]);
    }
    scale(mean_, 1.0f / static_cast<float>(left));
    adopt(mean_, clock_);
    pass_on(mean_, clock_);
  }

  void adopt(std::span<const float> model, std::uint64_t clock) {
    if (clock < model_clock_) return;  // overtaken on its way down
    const double interval = static_cast<double>(std::max<std::uint64_t>(1, clock - model_clock_));
    const double ahead = std::min(1.0, static_cast<double>(age(clock)) / interval);
    std::ranges::copy(model, target_.begin());
    subtract_scaled(target_, model_, static_cast<float>(ahead));
    subtract_scaled(target_, model, static_cast<float>(-ahead));
    std::ranges::copy(model, model_.begin());
    model_clock_ = clock;
  }

  // Down the tree over those who are left, of which the master is the first.
  void pass_on(std::span<const float> model, std::uint64_t clock) {
    if (settling_) return;  // nobody trains on it any more
    std::vector<int> left;
    int place = 0;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (rank == comm_.rank()) place = static_cast<int>(left.size());
      if (!comm_.is_lost(rank)) left.push_back(rank);
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
      letters_->send(child, header, std::as_bytes(model));
    }
  }

  float penalty_;
  bool settling_ = false;
  std::vector<float> model_, target_;  // the master's last, and where it will be by now
  std::uint64_t model_clock_ = 0;
  std::vector<std::vector<float>> latest_;  // at the master: what it has last heard of each
  std::vector<bool> written_;
  std::vector<float> mean_;
};

}  // namespace

std::unique_ptr<Mixing> make_penalty_mixing(const MixingSettings& settings, Comm& comm) {
  return std::make_unique<PenaltyMixing>(settings, comm);
}

}  // namespace starling
