// The element types of vectors, as PyTorch and NumPy have them.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace starling {

enum class Element : std::uint8_t { f32, f64, f16, bf16, u8, i8, i16, i32, i64, boolean };

// Two floating-point formats that C++ has no type for: their bits.
struct Half {
  std::uint16_t bits;  // IEEE binary16
  bool operator==(const Half&) const = default;
};
struct Bfloat {
  std::uint16_t bits;  // the upper half of a float
  bool operator==(const Bfloat&) const = default;
};

struct ElementInfo {
  std::string_view name;
  std::size_t bytes;
};
inline constexpr std::array<ElementInfo, 10> kElementTypes = {{{"f32", 4},
                                                               {"f64", 8},
                                                               {"f16", 2},
                                                               {"bf16", 2},
                                                               {"u8", 1},
                                                               {"i8", 1},
                                                               {"i16", 2},
                                                               {"i32", 4},
                                                               {"i64", 8},
                                                               {"bool", 1}}};

constexpr const ElementInfo& info(Element type) {
  return kElementTypes[static_cast<std::size_t>(type)];
}

// Element of a C++ type.
template <class T>
inline constexpr bool kIsElement = false;
template <class T>
inline constexpr Element kElementOf = Element::f32;

#define STARLING_ELEMENT(type, element)          \
  template <>                                    \
  inline constexpr bool kIsElement<type> = true; \
  template <>                                    \
  inline constexpr Element kElementOf<type> = Element::element
STARLING_ELEMENT(float, f32);
STARLING_ELEMENT(double, f64);
STARLING_ELEMENT(Half, f16);
STARLING_ELEMENT(Bfloat, bf16);
STARLING_ELEMENT(std::uint8_t, u8);
STARLING_ELEMENT(std::byte, u8);
STARLING_ELEMENT(std::int8_t, i8);
STARLING_ELEMENT(std::int16_t, i16);
STARLING_ELEMENT(std::int32_t, i32);
STARLING_ELEMENT(std::int64_t, i64);
STARLING_ELEMENT(bool, boolean);
#undef STARLING_ELEMENT

template <class T>
concept ElementType = kIsElement<T>;

}  // namespace starling
