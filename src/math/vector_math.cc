#include "math/vector_math.h"

#include <algorithm>

#include "base/check.h"

// Highway compiles this file once for every instruction set it knows and picks one when the program
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/vector_math.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

// The last few elements, which fill no vector, and zeros behind them. They are copied, as some machines
// have no masked loads but of whole vectors that are aligned, and no masked stores but such as write what
// is behind, too.
struct Rest {
  Rest(const float* from, std::size_t count) { std::copy_n(from, count, elements); }
  auto load() const { return hn::LoadU(Floats(), elements); }

  float elements[hn::MaxLanes(Floats())] = {};
};

// into[i] = combine(into[i], x[i]), the last few elements by a partial vector.
template <class Combine>
void zip(float* HWY_RESTRICT into, const float* HWY_RESTRICT x, std::size_t count,
         const Combine& combine) {
  const Floats floats;
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(combine(hn::LoadU(floats, into + i), hn::LoadU(floats, x + i)), floats, into + i);
  }
  if (i == count) return;
  Rest ours(into + i, count - i);
  hn::StoreU(combine(ours.load(), Rest(x + i, count - i).load()), floats, ours.elements);
  std::copy_n(ours.elements, count - i, into + i);
}

void AddFloats(float* into, const float* x, std::size_t count) {
  zip(into, x, count, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

void AverageFloats(float* into, const float* x, std::size_t count) {
  const auto half = hn::Set(Floats(), 0.5f);
  zip(into, x, count, [half](auto a, auto b) HWY_ATTR { return hn::Mul(hn::Add(a, b), half); });
}

void BlendFloats(float* into, const float* x, float weight, std::size_t count) {
  const auto weights = hn::Set(Floats(), weight);
  zip(into, x, count,
      [weights](auto a, auto b) HWY_ATTR { return hn::MulAdd(weights, hn::Sub(b, a), a); });
}

// The sum of what add(a, b, sum) adds to it.
template <class Add>
double sum_over(const float* a, const float* b, std::size_t count, const Add& add) {
  const Floats floats;
  const std::size_t lanes = hn::Lanes(floats);
  constexpr std::size_t kStretch = 4096;  // floats are exact enough for the sum over one
  double total = 0;
  std::size_t i = 0;
  while (i + lanes <= count) {
    auto sum = hn::Zero(floats);
    for (const std::size_t end = std::min(count, i + kStretch); i + lanes <= end; i += lanes) {
      sum = add(hn::LoadU(floats, a + i), hn::LoadU(floats, b + i), sum);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(floats, sum)));
  }
  const auto last =
      add(Rest(a + i, count - i).load(), Rest(b + i, count - i).load(), hn::Zero(floats));
  return total + static_cast<double>(hn::GetLane(hn::SumOfLanes(floats, last)));
}

double SquaredDistance(const float* a, const float* b, std::size_t count) {
  return sum_over(a, b, count, [](auto x, auto y, auto sum) HWY_ATTR {
    const auto distance = hn::Sub(x, y);
    return hn::MulAdd(distance, distance, sum);
  });
}

double Dot(const float* a, const float* b, std::size_t count) {
  return sum_over(a, b, count,
                  [](auto x, auto y, auto sum) HWY_ATTR { return hn::MulAdd(x, y, sum); });
}

// Each x is read before its copy is written, so that the two may be the same memory.
void SubtractScaledFloats(float* into, const float* x, float factor, float* copy,
                          std::size_t count) {
  const Floats floats;
  const auto factors = hn::Set(floats, factor);
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto product = hn::Mul(factors, hn::LoadU(floats, x + i));
    const auto result = hn::Sub(hn::LoadU(floats, into + i), product);
    hn::StoreU(result, floats, into + i);
    if (copy != nullptr) hn::StoreU(result, floats, copy + i);
  }
  for (; i < count; ++i) {
    into[i] -= factor * x[i];
    if (copy != nullptr) copy[i] = into[i];
  }
}

void ScaleFloats(float* values, float factor, std::size_t count) {
  const Floats floats;
  const auto factors = hn::Set(floats, factor);
  const std::size_t lanes = hn::Lanes(floats);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(floats, values + i), factors), floats, values + i);
  }
  for (; i < count; ++i) values[i] *= factor;
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(AddFloats);
HWY_EXPORT(AverageFloats);
HWY_EXPORT(BlendFloats);
HWY_EXPORT(Dot);
HWY_EXPORT(ScaleFloats);
HWY_EXPORT(SquaredDistance);
HWY_EXPORT(SubtractScaledFloats);

void add(std::span<float> into, std::span<const float> x) {
  STARLING_CHECK(into.size() == x.size(), "{} elements meet {}", into.size(), x.size());
  HWY_DYNAMIC_DISPATCH(AddFloats)(into.data(), x.data(), into.size());
}

void average(std::span<float> into, std::span<const float> x) {
  STARLING_CHECK(into.size() == x.size(), "{} elements meet {}", into.size(), x.size());
  HWY_DYNAMIC_DISPATCH(AverageFloats)(into.data(), x.data(), into.size());
}

void blend(std::span<float> into, std::span<const float> x, float weight) {
  STARLING_CHECK(into.size() == x.size(), "{} elements meet {}", into.size(), x.size());
  HWY_DYNAMIC_DISPATCH(BlendFloats)(into.data(), x.data(), weight, into.size());
}

double dot(std::span<const float> a, std::span<const float> b) {
  STARLING_CHECK(a.size() == b.size(), "{} elements meet {}", a.size(), b.size());
  return HWY_DYNAMIC_DISPATCH(Dot)(a.data(), b.data(), a.size());
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  STARLING_CHECK(a.size() == b.size(), "{} elements meet {}", a.size(), b.size());
  return HWY_DYNAMIC_DISPATCH(SquaredDistance)(a.data(), b.data(), a.size());
}

void scale(std::span<float> values, float factor) {
  HWY_DYNAMIC_DISPATCH(ScaleFloats)(values.data(), factor, values.size());
}

void subtract_scaled(std::span<float> into, std::span<const float> x, float factor) {
  STARLING_CHECK(into.size() == x.size(), "{} and {} elements", into.size(), x.size());
  HWY_DYNAMIC_DISPATCH(SubtractScaledFloats)(into.data(), x.data(), factor, nullptr, into.size());
}

void subtract_scaled(std::span<float> into, std::span<const float> x, float factor,
                     std::span<float> copy) {
  STARLING_CHECK(into.size() == x.size() && into.size() == copy.size(), "{}, {} and {} elements",
                 into.size(), x.size(), copy.size());
  HWY_DYNAMIC_DISPATCH(SubtractScaledFloats)
  (into.data(), x.data(), factor, copy.data(), into.size());
}

}  // namespace starling
#endif
