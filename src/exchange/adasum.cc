#include "exchange/adasum.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "exchange/fold.h"

namespace starling {

namespace {

// into = adasum(a, b), where into may be either.
template <class T>
void combine_adaptively(std::span<const T> a, std::span<const T> b, std::span<T> into) {
  double common = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    common += x * y;
    square_a += x * x;
    square_b += y * y;
  }
  const double of_a = square_a > 0 ? 1 - common / (2 * square_a) : 1;
  const double of_b = square_b > 0 ? 1 - common / (2 * square_b) : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    into[i] = static_cast<T>(of_a * static_cast<double>(a[i]) + of_b * static_cast<double>(b[i]));
  }
}

template <class T>
Task<> adasum_of(Group group, Channel channel, std::span<T> values) {
  const RankFold fold(group);
  auto theirs = group.lend<T>(values.size());
  const std::span<const T> own = values, other = theirs.span();
  const bool has_neighbour = group.rank() < 2 * (group.size() - fold.active());
  if (fold.folded_in()) {
    co_await move(group, channel, Outgoing{group.rank() - 1, values});
  } else if (has_neighbour) {
    co_await move(group, channel, Incoming{group.rank() + 1, theirs.span()});
    combine_adaptively(own, other, values);
  }
  for (int distance = 1; distance < fold.active() && !fold.folded_in(); distance *= 2) {
    const int place = fold.position() ^ distance;
    const int partner = fold.rank_at(place);
    co_await move(group, channel, {partner, values}, {partner, theirs.span()});
    // Both in the same order: a product and a sum in one instruction may round only one of them.
    if (fold.position() < place) {
      combine_adaptively(own, other, values);
    } else {
      combine_adaptively(other, own, values);
    }
  }
  co_await fold.take_back(group, channel, values);
}

template <class Short, class Widen, class Narrow>
Task<> adasum_of_short(Group group, Channel channel, Vector values, Widen widen, Narrow narrow) {
  auto wide = group.lend<float>(values.size());
  const std::span<Short> own = values.as<Short>();
  for (std::size_t i = 0; i < own.size(); ++i) wide.span()[i] = widen(own[i]);
  co_await adasum_of<float>(group, channel, wide.span());
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = narrow(wide.span()[i]);
}

}  // namespace

Task<> adasum(Group group, Channel channel, Vector values) {
  channel = channel.in("an adasum");
  switch (values.type()) {
    case Element::f32:
      return adasum_of(group, channel, values.as<float>());
    case Element::f64:
      return adasum_of(group, channel, values.as<double>());
    case Element::f16:
      return adasum_of_short<Half>(group, channel, values, from_half, to_half);
    case Element::bf16:
      return adasum_of_short<Bfloat>(group, channel, values, from_bfloat, to_bfloat);
    default:
      throw Error(fmt::format("there is no adasum of {}", info(values.type()).name));
  }
}

}  // namespace starling
