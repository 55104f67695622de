// Which elements of a vector are to be sent, as a bitmap; vectorized by Highway.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace starling {

class Selection {
 public:
  // All whose magnitude has at least these bits (base/half.h).
  void take_at_least(std::span<const float> values, std::uint32_t magnitude);

  // Each with the probability |value| / certain; so all from `certain` on. None of them is zero.
  // All machines draw the same by the same key.
  void draw(std::span<const float> values, float certain, std::uint64_t key);

  std::size_t count() const;

  // Calls visit(index) for each, ascending.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1) {
        visit(64 * word + static_cast<std::size_t>(std::countr_zero(rest)));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

// Of the magnitudes below a bound, and how many are not.
struct Below {
  double sum = 0;
  std::size_t others = 0;
};
Below below(std::span<const float> values, float bound);

}  // namespace starling
