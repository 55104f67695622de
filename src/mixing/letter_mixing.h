// What the rules that wait for nobody share: they write letters, and read after each step what has
// come. What is for a master, who lives beside a worker, is read at once.
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

  void visit_state(State state) override {
    Mixing::visit_state(state);
    state("random", random_);
  }

  void attend(std::span<float> weights) override {
    serving_->rethrow_failure();
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
  // Takes a letter in, between two steps; false: not now.
  virtual bool read(const Letter& letter, std::span<float> weights) = 0;
  // Takes a letter in that has nothing to do with this worker's own weights, as soon as it comes:
  // a master must not keep the others waiting for its own step. False: not such a letter.
  virtual bool read_at_once(const Letter&) { return false; }
  virtual bool awaits_answer() const { return false; }

  void open(std::size_t largest_bytes, int rooms = 2) {
    std::vector<int> everybody(static_cast<std::size_t>(group_.size()));
    std::iota(everybody.begin(), everybody.end(), 0);
    letters_.emplace(group_, everybody, largest_bytes, rooms);
    serving_.emplace(serve());
  }

  // For rules with a master, which rank 0 keeps beside its own weights at first.
  static constexpr int kMaster = 0;

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

 private:
  // Runs whenever the loop does, which the backward pass polls.
  Task<> serve() {
    while (true) {
      letters_->read_all([this](const Letter& letter) { return read_at_once(letter); });
      co_await letters_->news().rung();
    }
  }

  std::optional<Running> serving_;
};

}  // namespace starling
