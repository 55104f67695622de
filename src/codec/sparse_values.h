// A code of some elements and their values: how many (4 bytes), their values as bfloats (2 bytes
// each), their gaps (sparse.h).
#pragma once

#include <cstring>
#include <limits>

#include "base/check.h"
#include "codec/codec.h"
#include "codec/sparse.h"

namespace starling {

inline std::size_t sparse_values_bytes(std::size_t elements, std::size_t count) {
  return sizeof(std::uint32_t) + 2 * count + (largest_gap_bits(elements, count) + 7) / 8;
}

class SparseValuesWriter {
 public:
  // The code's capacity should be enough.
  SparseValuesWriter(std::vector<std::byte>& code, std::size_t elements, std::size_t count)
      : code_(code), gaps_(started(code, elements, count), elements, count) {}

  void put(std::size_t index, Bfloat value) {
    std::memcpy(&code_[value_at_], &value.bits, 2);
    value_at_ += 2;
    gaps_.put(index);
  }
  void finish() { gaps_.finish(); }

 private:
  static std::vector<std::byte>& started(std::vector<std::byte>& code, std::size_t elements,
                                         std::size_t count) {
    STARLING_CHECK(elements <= std::numeric_limits<std::uint32_t>::max(), "{} elements", elements);
    const auto header = static_cast<std::uint32_t>(count);
    code.resize(sizeof header + 2 * count);
    std::memcpy(code.data(), &header, sizeof header);
    return code;
  }

  std::vector<std::byte>& code_;
  std::size_t value_at_ = sizeof(std::uint32_t);
  GapWriter gaps_;
};

// Adds what such a code says; `name` is the codec's, for a BadCode of what has more than `most`.
void add_sparse_values(ConstBytes code, std::size_t most, const char* name, std::span<float> into);

}  // namespace starling
