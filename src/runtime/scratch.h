// Scratch memory on loan: sized at its first use, handed back when the loan ends, lent again to the
// next.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace starling {

class ScratchPool {
 public:
  static constexpr std::size_t kLine = 64;  // a cache line, and the widest vector register
  static constexpr std::align_val_t kAlignment{kLine};

  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
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
      const std::size_t rounded = (bytes / kLine + 1) * kLine;
      return {std::unique_ptr<void, Free>(::operator new(rounded, kAlignment)), rounded};
    }
    Block block = std::move(*best);
    *best = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }
  void give_back(Block block) { blocks_.push_back(std::move(block)); }

 private:
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
