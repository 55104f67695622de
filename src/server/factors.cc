#include "server/factors.h"

#include <algorithm>

namespace starling {

// Row by row of the product; a block may begin and end within one.
void multiply(const Factors& factors, std::size_t offset, std::span<float> gradient) {
  const auto [batch, inputs, outputs] = factors.shape;
  std::ranges::fill(gradient, 0.0f);
  for (std::size_t done = 0; done < gradient.size();) {
    const std::size_t row = (offset + done) / inputs;
    const std::size_t column = (offset + done) % inputs;
    const std::size_t count = std::min<std::size_t>(inputs - column, gradient.size() - done);
    float* const into = gradient.data() + done;
    for (std::size_t sample = 0; sample < batch; ++sample) {
      const float error = factors.errors[sample * outputs + row];
      const float* const activations = factors.activations.data() + sample * inputs + column;
      for (std::size_t i = 0; i < count; ++i) into[i] += error * activations[i];
    }
    done += count;
  }
}

}  // namespace starling
