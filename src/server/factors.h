// A dense layer's gradient is the product of two thin matrices: the errors at its outputs and the
// activations at its inputs, one row a sample. Where the batch is small beside the layer, sending
// the two is cheaper than sending their product.
#pragma once

#include <cstdint>
#include <span>

namespace starling {

struct Factors {
  struct Shape {
    std::uint64_t batch = 0;
    std::uint64_t inputs = 0;
    std::uint64_t outputs = 0;

    std::size_t activations() const { return batch * inputs; }
    std::size_t errors() const { return batch * outputs; }
    // Whether a block at that place can be part of the product, and the factors of sensible size.
    bool holds(std::uint64_t offset, std::uint64_t elements) const {
      constexpr std::uint64_t kLargest = 1 << 28;
      return batch <= kLargest && inputs <= kLargest && outputs <= kLargest &&
             activations() + errors() <= kLargest && offset <= inputs * outputs &&
             elements <= inputs * outputs - offset;
    }
  };

  Shape shape;
  std::span<const float> activations;  // batch x inputs
  std::span<const float> errors;       // batch x outputs
};

// gradient[i] = element offset + i of (errors^T activations), which is outputs x inputs.
void multiply(const Factors& factors, std::size_t offset, std::span<float> gradient);

}  // namespace starling
