// A stretch of a vector, and how one is split among ranks: n consecutive parts whose sizes differ by
// at most one element.
#pragma once

#include <cstddef>
#include <span>

namespace starling {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Part `index` of `parts` of a vector of `elements`; the first elements % parts get one more.
inline Range part(std::size_t elements, std::size_t parts, std::size_t index) {
  const std::size_t base = elements / parts;
  const std::size_t longer = elements % parts;
  const std::size_t begin = index * base + (index < longer ? index : longer);
  return {begin, begin + base + (index < longer ? 1 : 0)};
}

// The same of a span or a Vector.
template <class Values>
Values part_of(Values values, int parts, int index) {
  const Range range =
      part(values.size(), static_cast<std::size_t>(parts), static_cast<std::size_t>(index));
  return values.subspan(range.begin, range.size());
}

}  // namespace starling
