// What the rules that wait for nobody share: they write letters, and read after each step what has
// come.
#pragma once

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"
#include "math/vector_math.h"
#include "mixing/letters.h"
#include "mixing/mixing.h"

namespace starling {

class LetterMixing : public Mixing {
 public:
  LetterMixing(const MixingSettings& settings, Group group)
      : Mixing(group),
        neighbours_(settings.graph, group.rank()),
        random_{settings.seed, static_cast<std::uint64_t>(group.rank()), 0x1e77e5} {
    group.contain_losses();
  }

  void attend(std::span<float> weights) override {
    letters_->read_all([&](const Letter& letter) { return read(letter, weights); });
  }

  Task<> settle(std::span<float> weights) override {
    attend(weights);
    while (awaits_answer()) {
      co_await letters_->news().rung();
      attend(weights);
    }
    while (!letters_->close()) {
      co_await letters_->news().rung();
      attend(weights);
    }
  }

 protected:
  // Takes a letter in; false: not now.
  virtual bool read(const Letter& letter, std::span<float> weights) = 0;
  virtual bool awaits_answer() const { return false; }

  void open(std::size_t largest_bytes, int rooms = 2) {
    std::vector<int> everybody(static_cast<std::size_t>(group_.size()));
    std::iota(everybody.begin(), everybody.end(), 0);
    letters_.emplace(group_, everybody, largest_bytes, rooms);
  }

  // For rules whose master's model rank 0 keeps beside its own weights.
  static constexpr int kMaster = 0;
  void need_the_master() const {
    if (!group_.is_lost(kMaster)) return;
    throw Error(fmt::format("rank {}, which kept the master's model, was lost", kMaster),
                "start again");
  }

  // The weights that a letter carries.
  static std::span<float> model_in(const Letter& letter, std::size_t elements) {
    if (letter.sheet->bytes().size() != elements * sizeof(float)) {
      throw Error(fmt::format("rank {} sent {} bytes where {} were expected", letter.from,
                              letter.sheet->bytes().size(), elements * sizeof(float)),
                  "all workers must run the same program with the same model and settings");
    }
    return letter.sheet->floats();
  }
  void note(const Letter& letter, std::span<const float> weights, std::span<const float> model) {
    report_.mixed(age(letter.header.clock), squared_distance(weights, model));
  }

  // The copy is made for the first that can be written to, and shared with those after it.
  bool try_send(int rank, LetterHeader header, ConstBytes bytes, SharedSheet& copy) {
    if (!letters_->can_send(rank) || (!copy && !letters_->can_write())) {
      ++report_.skipped;
      return false;
    }
    if (!copy) copy = letters_->write(bytes);
    header.clock = clock_;
    letters_->send(rank, header, copy);
    return true;
  }
  bool try_send(int rank, LetterHeader header, ConstBytes bytes) {
    SharedSheet copy;
    return try_send(rank, header, bytes, copy);
  }

  // One of those we tell in this round, if any of them is left.
  std::optional<int> random_neighbour(std::uint64_t round) {
    std::vector<int> left;
    for (int rank : neighbours_.tells(round)) {
      if (!group_.is_lost(rank)) left.push_back(rank);
    }
    if (left.empty()) return std::nullopt;
    return left[random_.below(left.size())];
  }

  Neighbourhood neighbours_;
  Random random_;
  std::optional<Letters> letters_;
};

}  // namespace starling
