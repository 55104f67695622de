// Wraps a completion handler so that Asio takes the memory of its operation from the frame pool.
// Asio recycles such memory itself only while it is inside run(), and our coroutines start
// operations outside of it.
#pragma once

#include <cstddef>
#include <utility>

#include "runtime/frame_pool.h"

namespace starling {

template <class T>
struct FrameAllocator {
  using value_type = T;

  FrameAllocator() = default;
  template <class U>
  FrameAllocator(const FrameAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(FramePool::allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { FramePool::release(memory, count * sizeof(T)); }

  bool operator==(const FrameAllocator&) const = default;
};

template <class Handler>
struct Pooled {
  explicit Pooled(Handler h) : handler(std::move(h)) {}

  using allocator_type = FrameAllocator<std::byte>;
  allocator_type get_allocator() const noexcept { return {}; }

  template <class... Arguments>
  void operator()(Arguments&&... arguments) {
    handler(std::forward<Arguments>(arguments)...);
  }

  Handler handler;
};

}  // namespace starling
