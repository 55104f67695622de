// Tensors of 32-bit floats that go from one rank of a group to another, one behind the other on a
// channel. Whoever receives does not know their shapes beforehand: each brings its own.
#pragma once

#include <torch/types.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "runtime/group.h"

namespace starling {

inline constexpr std::size_t kMaxTensorBytes = std::size_t{1} << 31;

// How many elements a tensor of such sizes has; nothing if it is none, or too large to be taken from
// another rank.
std::optional<std::size_t> elements_of(std::span<const std::int64_t> sizes);

// In front of a tensor.
struct TensorHead {
  static constexpr std::size_t kMaxDimensions = 8;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> sizes{};
};

// Sends without waiting: what has been put here is kept until it has gone.
class TensorOut {
 public:
  TensorOut(Group group, int to, Channel channel) : group_(group), to_(to), channel_(channel) {}

  void put(const torch::Tensor& tensor);
  // All that was put here has gone.
  Task<> flush();

 private:
  struct Parcel {
    torch::Tensor tensor;
    TensorHead head;
    std::optional<Send> send;
  };

  Group group_;
  int to_;
  Channel channel_;
  std::deque<std::unique_ptr<Parcel>> under_way_;
};

// Receives ahead: while one tensor is worked on, the next one lands.
class TensorIn {
 public:
  TensorIn(Group group, int from, Channel channel)
      : group_(group), from_(from), channel_(channel) {}

  // So many more will come.
  void expect(int count) { expected_ += count; }
  // Throws Error if what came is no tensor.
  Task<torch::Tensor> next();

 private:
  // At a time; each takes the memory of one tensor as soon as it begins to arrive.
  static constexpr std::size_t kAhead = 2;

  struct Slot final : Lender {
    std::optional<Bytes> lend(std::size_t bytes) override;
    torch::Tensor memory;
    TensorHead head;
    std::optional<Receive> receive;
  };
  void post_ahead();

  Group group_;
  int from_;
  Channel channel_;
  int expected_ = 0;  // that have no receive yet
  std::deque<std::unique_ptr<Slot>> slots_;
};

}  // namespace starling
