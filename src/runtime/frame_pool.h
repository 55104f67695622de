// Coroutine frames come from here. A training step runs the same coroutines as the one before it,
// so their frames are recycled by size and a steady-state step asks the allocator for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace starling {

class FramePool {
 public:
  static void* allocate(std::size_t bytes) {
    const std::size_t slot = slot_of(bytes);
    if (slot >= kSlots) return ::operator new(bytes);
    Free*& head = pool().free_[slot];
    if (head == nullptr) return ::operator new((slot + 1) * kGranule);
    return std::exchange(head, head->next);
  }

  static void release(void* frame, std::size_t bytes) {
    const std::size_t slot = slot_of(bytes);
    if (slot >= kSlots) return ::operator delete(frame);
    Free*& head = pool().free_[slot];
    head = new (frame) Free{head};
  }

  ~FramePool() {
    for (Free* head : free_) {
      while (head != nullptr) ::operator delete(std::exchange(head, head->next));
    }
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t kGranule = 64;
  static constexpr std::size_t kSlots = 64;  // frames of up to 4 KB

  static std::size_t slot_of(std::size_t bytes) { return (bytes - 1) / kGranule; }
  static FramePool& pool() {
    thread_local FramePool pool;
    return pool;
  }

  std::array<Free*, kSlots> free_{};
};

}  // namespace starling
