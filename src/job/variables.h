// Environment variables: of this process, or a list that a test makes up.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <string>

#include "base/error.h"

namespace starling {

class Variables {
 public:
  Variables();  // of this process
  // `find` returns nullptr where a variable is not set.
  explicit Variables(std::function<const char*(const char*)> find) : find_(std::move(find)) {}

  std::string text(const char* name, std::string fallback = "") const {
    const char* value = find_(name);
    return value == nullptr ? fallback : value;
  }
  // Throws Error on what is no number within these bounds; one that is empty is not set.
  template <class Number>
  Number number(const char* name, Number fallback, Number low, Number high) const {
    const std::string value = text(name);
    if (value.empty()) return fallback;
    Number parsed{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || parsed < low ||
        parsed > high) {
      throw Error(fmt::format("{} is '{}'", name, value),
                  fmt::format("it must be a whole number from {} to {}", low, high));
    }
    return parsed;
  }

 private:
  std::function<const char*(const char*)> find_;
};

}  // namespace starling
