#include "server/factors.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/random.h"

namespace starling {
namespace {

// A dense layer's factors, of whole numbers: then no sum is rounded, and results can be compared
// exactly.
struct Layer {
  explicit Layer(const Factors::Shape& with_shape) : shape(with_shape) {
    Random random{shape.batch, shape.inputs, shape.outputs};
    const auto number = [&] { return static_cast<float>(random.below(17)) - 8; };
    for (std::size_t i = 0; i < shape.activations(); ++i) activations.push_back(number());
    for (std::size_t i = 0; i < shape.errors(); ++i) errors.push_back(number());
  }

  Factors factors() const { return {shape, activations, errors}; }
  std::size_t elements() const { return shape.inputs * shape.outputs; }

  // As it is defined, element by element.
  std::vector<float> gradient(std::size_t offset, std::size_t count) const {
    std::vector<float> gradient;
    for (std::size_t i = offset; i < offset + count; ++i) {
      const std::size_t output = i / shape.inputs, input = i % shape.inputs;
      float sum = 0;
      for (std::size_t sample = 0; sample < shape.batch; ++sample) {
        sum += errors[sample * shape.outputs + output] * activations[sample * shape.inputs + input];
      }
      gradient.push_back(sum);
    }
    return gradient;
  }

  Factors::Shape shape;
  std::vector<float> activations, errors;
};

// The block as multiply() makes it, in a place that held something else before; what stands before
// and behind it must stay.
std::vector<float> multiplied(const Layer& layer, std::size_t offset, std::size_t count) {
  constexpr std::size_t kMargin = 3;
  std::vector<float> memory(count + 2 * kMargin, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < kMargin; ++i) memory[i] = memory[memory.size() - 1 - i] = 77;
  multiply(layer.factors(), offset, std::span(memory).subspan(kMargin, count));
  for (std::size_t i = 0; i < kMargin; ++i) {
    EXPECT_EQ(memory[i], 77) << "wrote before its block";
    EXPECT_EQ(memory[memory.size() - 1 - i], 77) << "wrote behind its block";
  }
  return {memory.begin() + kMargin, memory.end() - kMargin};
}

std::vector<Layer> layers() {
  std::vector<Layer> layers;
  for (std::uint64_t batch : {1, 2, 5, 32}) {
    for (std::uint64_t inputs : {1, 2, 7, 33}) {
      for (std::uint64_t outputs : {1, 3, 10}) {
        layers.emplace_back(Factors::Shape{batch, inputs, outputs});
      }
    }
  }
  return layers;
}

TEST(Factors, MakeTheWholeGradient) {
  for (const Layer& layer : layers()) {
    EXPECT_EQ(multiplied(layer, 0, layer.elements()), layer.gradient(0, layer.elements()))
        << layer.shape.batch << " x " << layer.shape.inputs << " x " << layer.shape.outputs;
  }
}

TEST(Factors, MakeAnyBlockOfTheGradientAlsoFromTheMiddleOfARow) {
  for (const Layer& layer : layers()) {
    for (std::size_t offset = 0; offset <= layer.elements(); offset += 1 + offset / 5) {
      for (std::size_t count = 0; offset + count <= layer.elements(); count += 1 + count / 3) {
        ASSERT_EQ(multiplied(layer, offset, count), layer.gradient(offset, count))
            << layer.shape.batch << " x " << layer.shape.inputs << " x " << layer.shape.outputs
            << ", " << count << " from " << offset;
      }
    }
  }
}

TEST(Factors, OfNoSamplesMakeZeros) {
  const Layer layer({0, 4, 3});
  EXPECT_EQ(multiplied(layer, 0, 12), std::vector<float>(12, 0.0f));
  EXPECT_EQ(multiplied(layer, 5, 0), std::vector<float>());
}

TEST(Factors, HoldOnlyBlocksThatArePartOfTheirProduct) {
  const Factors::Shape shape{4, 7, 3};
  EXPECT_TRUE(shape.holds(0, 21));
  EXPECT_TRUE(shape.holds(20, 1));
  EXPECT_TRUE(shape.holds(21, 0));
  EXPECT_FALSE(shape.holds(0, 22));
  EXPECT_FALSE(shape.holds(20, 2));
  EXPECT_FALSE(shape.holds(22, 0));
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(shape.holds(kMost, 2));  // which add up to 1
  EXPECT_FALSE((Factors::Shape{kMost, 2, 2}.holds(0, 1)));
  EXPECT_FALSE((Factors::Shape{1, 1u << 29, 1}.holds(0, 1)));
  EXPECT_FALSE((Factors::Shape{4, 0, 3}.holds(0, 1)));
}

}  // namespace
}  // namespace starling
