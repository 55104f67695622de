// Counts a test program's allocations, to see that a steady-state step makes none. It replaces the
// program's operator new, plain, nothrow and aligned: include it in one file of a program.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

// A test's other threads allocate, too.
inline std::atomic<std::size_t> allocations = 0;
inline std::atomic<std::size_t> allocated_bytes = 0;

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  allocated_bytes += bytes;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  allocated_bytes += bytes;
  return std::malloc(bytes);
}
// What exchanges borrow begins at a cache line.
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  allocated_bytes += bytes;
  const auto multiple = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + multiple - 1) / multiple * multiple;
  if (void* memory = std::aligned_alloc(multiple, rounded)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
