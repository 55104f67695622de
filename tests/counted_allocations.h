// Counts a test program's allocations, to see that a steady-state step makes none. It replaces the
// program's operator new: include it in one file of a program.
#pragma once

#include <cstdlib>
#include <new>

inline std::size_t allocations = 0;

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
