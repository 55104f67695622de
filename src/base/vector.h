// Vector: memory with an element type, somebody else's. It is what exchanges move and reduce, so that
// one algorithm serves a model's floats, another framework's tensors and plain counters. It is a
// view: cheap to copy, and never longer-lived than what it looks at. Its memory need not be aligned.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/element.h"

namespace starling {

// `Byte` is std::byte, or const std::byte for a vector that is only read.
template <class Byte>
class BasicVector {
 public:
  BasicVector() = default;
  BasicVector(Element type, Byte* data, std::size_t elements)
      : type_(type), data_(data), elements_(elements) {}
  template <class T, std::size_t kExtent>
  BasicVector(std::span<T, kExtent> values)
      : BasicVector(kElementOf<std::remove_const_t<T>>, reinterpret_cast<Byte*>(values.data()),
                    values.size()) {
    static_assert(ElementType<std::remove_const_t<T>>);
  }
  template <ElementType T>
  BasicVector(std::vector<T>& values) : BasicVector(std::span<T>(values)) {}
  template <ElementType T>
  BasicVector(const std::vector<T>& values) : BasicVector(std::span<const T>(values)) {}
  // One that is only read, of one that may be written.
  template <std::same_as<std::byte> Other>
  BasicVector(const BasicVector<Other>& other)
      : BasicVector(other.type(), other.data(), other.size()) {}

  Element type() const { return type_; }
  Byte* data() const { return data_; }
  std::size_t size() const { return elements_; }  // in elements
  bool empty() const { return elements_ == 0; }
  std::size_t element_bytes() const { return info(type_).bytes; }
  // As what it is.
  template <ElementType T>
  auto as() const {
    using Value = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    STARLING_CHECK(type_ == kElementOf<T>, "{} are no {}", info(type_).name,
                   info(kElementOf<T>).name);
    return std::span<Value>(reinterpret_cast<Value*>(data_), elements_);
  }
  std::span<Byte> bytes() const { return {data_, elements_ * element_bytes()}; }

  BasicVector subspan(std::size_t begin, std::size_t elements) const {
    return {type_, data_ + begin * element_bytes(), elements};
  }

 private:
  Element type_ = Element::f32;
  Byte* data_ = nullptr;
  std::size_t elements_ = 0;
};

using Vector = BasicVector<std::byte>;
using ConstVector = BasicVector<const std::byte>;

}  // namespace starling
