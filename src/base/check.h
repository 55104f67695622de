// STARLING_CHECK stops the program where an invariant is broken: going on would only hide the bug.
#pragma once

#include <fmt/core.h>

#include <cstdlib>

#define STARLING_CHECK(condition, ...)                                                         \
  do {                                                                                         \
    if (!(condition)) [[unlikely]] {                                                           \
      fmt::print(stderr, "{}:{}: broken invariant ({}): {}\n", __FILE__, __LINE__, #condition, \
                 fmt::format(__VA_ARGS__));                                                    \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)
