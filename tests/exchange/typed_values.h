// Values of any element type, as small whole numbers, which every type and reduction holds exactly; and
// groups to exchange them in.
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "base/vector.h"

namespace starling {

class TypedValues {
 public:
  TypedValues(Element type, std::size_t elements)
      : type_(type), elements_(elements), bytes_(elements * info(type).bytes) {}

  // From 0 to 3; of a rank, different from those of another.
  static TypedValues of_rank(Element type, std::size_t elements, int rank) {
    TypedValues values(type, elements);
    Random random{static_cast<std::uint64_t>(rank), elements};
    for (std::size_t i = 0; i < elements; ++i) {
      values.set(i, static_cast<int>(random.below(type == Element::boolean ? 2 : 4)));
    }
    return values;
  }

  Vector vector() { return {type_, bytes_.data(), elements_}; }
  bool operator==(const TypedValues&) const = default;

 private:
  template <class T>
  void put(std::size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }
  void set(std::size_t i, int value) {
    const auto number = static_cast<float>(value);
    switch (type_) {
      case Element::f32:
        return put(i, number);
      case Element::f64:
        return put(i, static_cast<double>(number));
      case Element::f16:
        return put(i, to_half(number));
      case Element::bf16:
        return put(i, to_bfloat(number));
      case Element::u8:
        return put(i, static_cast<std::uint8_t>(value));
      case Element::i8:
        return put(i, static_cast<std::int8_t>(value));
      case Element::i16:
        return put(i, static_cast<std::int16_t>(value));
      case Element::i32:
        return put(i, value);
      case Element::i64:
        return put(i, static_cast<std::int64_t>(value));
      case Element::boolean:
        return put(i, value != 0);
    }
  }

  Element type_;
  std::size_t elements_;
  std::vector<std::byte> bytes_;
};

inline std::vector<TypedValues> values_of_all(Element type, std::size_t elements, int ranks) {
  std::vector<TypedValues> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(TypedValues::of_rank(type, elements, rank));
  }
  return all;
}

inline std::vector<Element> all_elements() {
  std::vector<Element> all;
  for (std::size_t i = 0; i < kElementTypes.size(); ++i) all.push_back(static_cast<Element>(i));
  return all;
}

// n ranks of a world that has some more, before, behind and between them, in another order.
struct SomeRanks {
  int world;
  std::vector<int> ranks;
};
inline SomeRanks everybody(int n) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {n, ranks};
}
inline SomeRanks every_second_backwards(int n) {
  std::vector<int> ranks;
  for (int place = 0; place < n; ++place) ranks.push_back(2 * (n - place) - 1);
  return {2 * n + 1, ranks};
}

}  // namespace starling
