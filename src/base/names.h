// Enums whose values have names that people write: in settings files, on the command line, in
// errors. Beside such an enum stands one table, a function that is found by the enum's type:
//
//   enum class Kind { window, closed_ring };
//   friend constexpr Names<2> names_of(Kind) { return {"graph", {"window", "closed-ring"}}; }
//
// Parsing, writing, help and errors all read it.
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace starling {

template <std::size_t N>
struct Names {
  std::string_view what;                 // they are names of, in errors
  std::array<std::string_view, N> each;  // in the order of the enum
};

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  names_of(E{});
};

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return names_of(value).each[static_cast<std::size_t>(value)];
}

// "a, b, c", or with another word before the last one: "a, b or c".
template <class List>
std::string listed(const List& names, std::string_view before_last = ", ") {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    list += i == 0 ? "" : i + 1 < names.size() ? ", " : before_last;
    list += names[i];
  }
  return list;
}

template <NamedEnum E>
std::string names_listed(std::string_view before_last = ", ") {
  return listed(names_of(E{}).each, before_last);
}

template <NamedEnum E>
constexpr std::optional<E> find_named(std::string_view name) {
  const auto names = names_of(E{}).each;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// Throws Error naming those there are.
template <NamedEnum E>
E named(std::string_view name) {
  if (const std::optional<E> found = find_named<E>(name)) return *found;
  throw Error(fmt::format("there is no {} '{}'", names_of(E{}).what, name),
              "there are " + names_listed<E>());
}

template <NamedEnum E>
std::ostream& operator<<(std::ostream& out, E value) {
  return out << name_of(value);
}

// Whether a table has a row for every value, in the order of the enum.
template <class Row, std::size_t N, NamedEnum E>
constexpr bool is_a_registry(const std::array<Row, N>& rows, E Row::*value) {
  bool in_order = N == names_of(E{}).each.size();
  for (std::size_t i = 0; i < N; ++i) in_order = in_order && rows[i].*value == static_cast<E>(i);
  return in_order;
}

}  // namespace starling

template <starling::NamedEnum E>
struct fmt::formatter<E> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(E value, Context& context) const {
    return fmt::formatter<std::string_view>::format(starling::name_of(value), context);
  }
};
