// Scratch memory on loan: sized at its first use, handed back when the loan ends, lent again to the
// next.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace starling {

class ScratchPool {
 public:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::size_t bytes = 0;
  };

  // The smallest free block that is large enough, the last to come back of several; else a new
  // one.
  Block take(std::size_t bytes) {
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (block->bytes >= bytes && (best == blocks_.end() || block->bytes <= best->bytes)) {
        best = block;
      }
    }
    if (best == blocks_.end()) {
      const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
      void* memory = std::aligned_alloc(kAlignment, rounded);
      if (memory == nullptr) throw std::bad_alloc();
      return {std::unique_ptr<void, Free>(memory), rounded};
    }
    Block block = std::move(*best);
    *best = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }
  void give_back(Block block) { blocks_.push_back(std::move(block)); }

 private:
  static constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register
  std::vector<Block> blocks_;
};

template <class T>
class Scratch {
 public:
  Scratch(ScratchPool& pool, std::size_t elements)
      : pool_(pool), block_(pool.take(elements * sizeof(T))), elements_(elements) {}
  Scratch(Scratch&& other) noexcept
      : pool_(other.pool_), block_(std::move(other.block_)), elements_(other.elements_) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    if (block_.memory) pool_.give_back(std::move(block_));
  }

  std::span<T> span() const { return {static_cast<T*>(block_.memory.get()), elements_}; }

 private:
  ScratchPool& pool_;
  ScratchPool::Block block_;
  std::size_t elements_;
};

}  // namespace starling
