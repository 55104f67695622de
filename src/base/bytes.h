// Views of memory as bytes, the currency between Comm and everything above it.
#pragma once

#include <cstddef>
#include <span>

namespace starling {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

template <class T>
Bytes writable_bytes(std::span<T> values) {
  return std::as_writable_bytes(values);
}

template <class T>
ConstBytes bytes_of(std::span<T> values) {
  return std::as_bytes(values);
}

// A single object as bytes, for small fixed-size messages.
template <class T>
Bytes object_bytes(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

}  // namespace starling
