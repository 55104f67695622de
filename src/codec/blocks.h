// A vector cut into blocks of one length; the last may be shorter.
#pragma once

#include <algorithm>
#include <cstddef>

namespace starling {

class Blocks {
 public:
  explicit Blocks(int length) : length_(static_cast<std::size_t>(length)) {}

  std::size_t count(std::size_t elements) const { return (elements + length_ - 1) / length_; }

  // What all of them take if one of n elements takes bytes_of(n).
  template <class BytesOf>
  std::size_t bytes(std::size_t elements, const BytesOf& bytes_of) const {
    const std::size_t rest = elements % length_;
    return elements / length_ * bytes_of(length_) + (rest > 0 ? bytes_of(rest) : 0);
  }

  // Calls visit(begin, elements) for each.
  template <class Visit>
  void each(std::size_t elements, const Visit& visit) const {
    for (std::size_t begin = 0; begin < elements; begin += length_) {
      visit(begin, std::min(length_, elements - begin));
    }
  }

 private:
  std::size_t length_;
};

}  // namespace starling
