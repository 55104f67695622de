#include "math/reduce.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/half.h"

// Highway compiles this file once for every instruction set it knows and picks one when the program
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/reduce.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// How many elements of a type are worked on at a time, and how they get into vectors and back. What
// C++ has a type for stands in its vectors as it is.
template <class T>
struct Plain {
  using Tag = hn::ScalableTag<T>;
  static constexpr std::size_t kBytes = sizeof(T);
  static std::size_t lanes() { return hn::Lanes(Tag()); }
  static HWY_INLINE auto load(const std::byte* from) {
    return hn::LoadU(Tag(), reinterpret_cast<const T*>(from));
  }
  template <class V>
  static HWY_INLINE void store(V vector, std::byte* to) {
    hn::StoreU(vector, Tag(), reinterpret_cast<T*>(to));
  }
};

// 16-bit formats are worked on as floats; base/half.h has the same conversions for one value.
struct SixteenBits {
  using Floats = hn::ScalableTag<float>;
  using Words = hn::RebindToUnsigned<Floats>;
  using Narrow = hn::Rebind<std::uint16_t, Words>;
  static constexpr std::size_t kBytes = 2;
  static std::size_t lanes() { return hn::Lanes(Floats()); }
  static HWY_INLINE auto load_words(const std::byte* from) {
    return hn::PromoteTo(Words(),
                         hn::LoadU(Narrow(), reinterpret_cast<const std::uint16_t*>(from)));
  }
  template <class V>
  static HWY_INLINE void store_words(V words, std::byte* to) {
    const auto narrow = hn::DemoteTo(Narrow(), hn::BitCast(hn::RebindToSigned<Words>(), words));
    hn::StoreU(narrow, Narrow(), reinterpret_cast<std::uint16_t*>(to));
  }
  static HWY_INLINE auto word(std::uint32_t value) { return hn::Set(Words(), value); }
  // a < b ? yes : no, for a and b below 2^31
  template <class V>
  static HWY_INLINE V if_less(V a, V b, V yes, V no) {
    const hn::RebindToSigned<Words> integers;
    const auto less = hn::Lt(hn::BitCast(integers, a), hn::BitCast(integers, b));
    return hn::IfThenElse(hn::RebindMask(Words(), less), yes, no);
  }
};

struct HalfFloats : SixteenBits {
  static HWY_INLINE auto load(const std::byte* from) {
    const auto half = load_words(from);
    const auto sign = hn::ShiftLeft<16>(hn::And(half, word(0x8000)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(half, word(0x7fff)));
    const auto normal = hn::Add(shifted, word(kHalfRebias));
    const auto subnormal = hn::BitCast(
        Words(), hn::Sub(hn::BitCast(Floats(), hn::Add(shifted, word(kHalfSmallestNormal))),
                         hn::Set(Floats(), 0x1p-14f)));
    const auto finite = if_less(shifted, word(1 << 23), subnormal, normal);
    const auto magnitude =
        if_less(shifted, word(31 << 23), finite, hn::Add(normal, word(kHalfRebias)));
    return hn::BitCast(Floats(), hn::Or(sign, magnitude));
  }
  template <class V>
  static HWY_INLINE void store(V floats, std::byte* to) {
    const auto bits = hn::BitCast(Words(), floats);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), word(0x8000));
    const auto magnitude = hn::And(bits, word(0x7fffffff));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), word(1));
    const auto normal = hn::ShiftRight<13>(
        hn::Sub(hn::Add(hn::Add(magnitude, word(0xfff)), odd), word(kHalfRebias)));
    const auto half = hn::Set(Floats(), 0.5f);
    const auto subnormal =
        hn::Sub(hn::BitCast(Words(), hn::Add(hn::BitCast(Floats(), magnitude), half)),
                hn::BitCast(Words(), half));
    const auto number = if_less(magnitude, word(kHalfSmallestNormal), subnormal,
                                if_less(normal, word(0x7c00), normal, word(0x7c00)));
    store_words(hn::Or(sign, if_less(word(kInfinityBits), magnitude, word(0x7e00), number)), to);
  }
};

struct Bfloats : SixteenBits {
  static HWY_INLINE auto load(const std::byte* from) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(load_words(from)));
  }
  template <class V>
  static HWY_INLINE void store(V floats, std::byte* to) {
    const auto bits = hn::BitCast(Words(), floats);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), word(0x8000));
    const auto magnitude = hn::And(bits, word(0x7fffffff));
    const auto odd = hn::And(hn::ShiftRight<16>(magnitude), word(1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(magnitude, word(0x7fff)), odd));
    store_words(hn::Or(sign, if_less(word(kInfinityBits), magnitude, word(0x7fc0), rounded)), to);
  }
};

struct Sum {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Add(a, b);
  }
};
struct Product {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct Smaller {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::IfThenElse(hn::Lt(b, a), b, a);
  }
};
struct Larger {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::IfThenElse(hn::Lt(a, b), b, a);
  }
};
struct Either {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Or(a, b);
  }
};
struct Both {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::And(a, b);
  }
};

struct OneOfBoth {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Xor(a, b);
  }
};

// The last few elements go through memory of a whole vector's size.
template <class Elements, class Operation>
void zip(Vector left, ConstVector right) {
  constexpr std::size_t kBytes = Elements::kBytes;
  const std::size_t lanes = Elements::lanes();
  const std::size_t count = left.size();
  std::byte* const into = left.data();
  const std::byte* const x = right.data();
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Elements::store(
        Operation::of(Elements::load(into + i * kBytes), Elements::load(x + i * kBytes)),
        into + i * kBytes);
  }
  if (i == count) return;
  HWY_ALIGN std::byte a[HWY_MAX_BYTES] = {}, b[HWY_MAX_BYTES] = {};
  const std::size_t rest = (count - i) * kBytes;
  std::memcpy(a, into + i * kBytes, rest);
  std::memcpy(b, x + i * kBytes, rest);
  Elements::store(Operation::of(Elements::load(a), Elements::load(b)), a);
  std::memcpy(into + i * kBytes, a, rest);
}

template <class Elements>
void scale(std::byte* values, float factor, std::size_t count) {
  constexpr std::size_t kBytes = Elements::kBytes;
  const std::size_t lanes = Elements::lanes();
  const auto factors = hn::Set(hn::ScalableTag<float>(), factor);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Elements::store(hn::Mul(Elements::load(values + i * kBytes), factors), values + i * kBytes);
  }
  if (i == count) return;
  HWY_ALIGN std::byte a[HWY_MAX_BYTES] = {};
  std::memcpy(a, values + i * kBytes, (count - i) * kBytes);
  Elements::store(hn::Mul(Elements::load(a), factors), a);
  std::memcpy(values + i * kBytes, a, (count - i) * kBytes);
}

void ScaleFloats32(std::byte* values, float factor, std::size_t count) {
  scale<Plain<float>>(values, factor, count);
}
void ScaleHalves(std::byte* values, float factor, std::size_t count) {
  scale<HalfFloats>(values, factor, count);
}
void ScaleBfloats(std::byte* values, float factor, std::size_t count) {
  scale<Bfloats>(values, factor, count);
}

// Not every instruction set can multiply these, and hardly anybody wants to.
template <class T>
void multiply_one_by_one(Vector into, ConstVector x) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    T a, b;
    std::memcpy(&a, into.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&b, x.data() + i * sizeof(T), sizeof(T));
    a = static_cast<T>(a * b);
    std::memcpy(into.data() + i * sizeof(T), &a, sizeof(T));
  }
}

template <class Elements>
Combine of(Reduction reduction, Combine product = zip<Elements, Product>) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean:
      return zip<Elements, Sum>;
    case Reduction::min:
      return zip<Elements, Smaller>;
    case Reduction::max:
      return zip<Elements, Larger>;
    case Reduction::product:
      return product;
    default:
      return nullptr;
  }
}

// Bits stay where they are, so one loop serves all types.
template <class Operation>
void zip_bits(Vector into, ConstVector x) {
  zip<Plain<std::uint8_t>, Operation>({Element::u8, into.data(), into.bytes().size()},
                                      {Element::u8, x.data(), x.bytes().size()});
}

Combine FindCombine(Element type, Reduction reduction) {
  const bool has_bits =
      type != Element::f32 && type != Element::f64 && type != Element::f16 && type != Element::bf16;
  if (reduction == Reduction::bits_and) return has_bits ? zip_bits<Both> : nullptr;
  if (reduction == Reduction::bits_or) return has_bits ? zip_bits<Either> : nullptr;
  if (reduction == Reduction::bits_xor) return has_bits ? zip_bits<OneOfBoth> : nullptr;
  switch (type) {
    case Element::f32:
      return of<Plain<float>>(reduction);
    case Element::f64:
      return of<Plain<double>>(reduction);
    case Element::f16:
      return of<HalfFloats>(reduction);
    case Element::bf16:
      return of<Bfloats>(reduction);
    case Element::u8:
      return of<Plain<std::uint8_t>>(reduction, multiply_one_by_one<unsigned char>);
    case Element::i8:
      return of<Plain<std::int8_t>>(reduction, multiply_one_by_one<unsigned char>);
    case Element::i16:
      return of<Plain<std::int16_t>>(reduction, multiply_one_by_one<std::uint16_t>);
    case Element::i32:
      return of<Plain<std::int32_t>>(reduction, multiply_one_by_one<std::uint32_t>);
    case Element::i64:
      return of<Plain<std::int64_t>>(reduction, multiply_one_by_one<std::uint64_t>);
    case Element::boolean:
      if (reduction == Reduction::mean) return nullptr;
      return reduction == Reduction::sum || reduction == Reduction::max
                 ? zip<Plain<std::uint8_t>, Either>
                 : zip<Plain<std::uint8_t>, Both>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(FindCombine);
HWY_EXPORT(ScaleFloats32);
HWY_EXPORT(ScaleHalves);
HWY_EXPORT(ScaleBfloats);

Combine combiner(Element type, Reduction reduction) {
  const Combine found = HWY_DYNAMIC_DISPATCH(FindCombine)(type, reduction);
  if (found == nullptr) {
    throw Error(fmt::format("there is no {} of {}",
                            kReductionNames[static_cast<std::size_t>(reduction)], info(type).name));
  }
  return found;
}

void combine(Vector into, ConstVector x, Reduction reduction) {
  STARLING_CHECK(into.size() == x.size() && into.type() == x.type(), "{} {} meet {} {}",
                 into.size(), info(into.type()).name, x.size(), info(x.type()).name);
  combiner(into.type(), reduction)(into, x);
}

namespace {

template <class T, class Divide>
void each(Vector values, const Divide& divide) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, values.data() + i * sizeof(T), sizeof(T));
    value = divide(value);
    std::memcpy(values.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void divide_integers(Vector values, int count) {
  each<T>(values,
          [count](T value) { return static_cast<T>(static_cast<std::int64_t>(value) / count); });
}

// Calls action(T()) where the values are integers of type T; false where they are none.
template <class Action>
bool if_integers(Element type, const Action& action) {
  switch (type) {
    case Element::u8:
      action(std::uint8_t());
      return true;
    case Element::i8:
      action(std::int8_t());
      return true;
    case Element::i16:
      action(std::int16_t());
      return true;
    case Element::i32:
      action(std::int32_t());
      return true;
    case Element::i64:
      action(std::int64_t());
      return true;
    default:
      return false;
  }
}

}  // namespace

void multiply(Vector values, double factor) {
  if (factor == 1) return;
  const auto short_factor = static_cast<float>(factor);
  const auto scale_integers = [&](auto zero) {
    using T = decltype(zero);
    each<T>(values, [factor](T value) {
      return static_cast<T>(static_cast<std::int64_t>(static_cast<double>(value) * factor));
    });
  };
  if (if_integers(values.type(), scale_integers)) return;
  switch (values.type()) {
    case Element::f32:
      return HWY_DYNAMIC_DISPATCH(ScaleFloats32)(values.data(), short_factor, values.size());
    case Element::f16:
      return HWY_DYNAMIC_DISPATCH(ScaleHalves)(values.data(), short_factor, values.size());
    case Element::bf16:
      return HWY_DYNAMIC_DISPATCH(ScaleBfloats)(values.data(), short_factor, values.size());
    case Element::f64:
      return each<double>(values, [factor](double value) { return value * factor; });
    default:
      throw Error(fmt::format("{} cannot be multiplied by {}", info(values.type()).name, factor));
  }
}

void conclude(Vector values, Reduction reduction, int count) {
  if (reduction != Reduction::mean || count == 1) return;
  const float factor = 1.0f / static_cast<float>(count);
  switch (values.type()) {
    case Element::f32:
      return HWY_DYNAMIC_DISPATCH(ScaleFloats32)(values.data(), factor, values.size());
    case Element::f16:
      return HWY_DYNAMIC_DISPATCH(ScaleHalves)(values.data(), factor, values.size());
    case Element::bf16:
      return HWY_DYNAMIC_DISPATCH(ScaleBfloats)(values.data(), factor, values.size());
    case Element::f64:
      return each<double>(values, [count](double value) { return value * (1.0 / count); });
    case Element::u8:
      return divide_integers<std::uint8_t>(values, count);
    case Element::i8:
      return divide_integers<std::int8_t>(values, count);
    case Element::i16:
      return divide_integers<std::int16_t>(values, count);
    case Element::i32:
      return divide_integers<std::int32_t>(values, count);
    case Element::i64:
      return divide_integers<std::int64_t>(values, count);
    case Element::boolean:
      break;  // combiner() has thrown
  }
}

}  // namespace starling
#endif  // HWY_ONCE
