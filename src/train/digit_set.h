// Images of handwritten digits, or of clothes in the same form, and their labels, in memory as bytes:
// 60,000 MNIST images are 47 MB this way and would be 188 MB as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace starling {

inline constexpr std::size_t kDigitSide = 28;  // rows and columns of an image
inline constexpr std::size_t kDigitClasses = 10;

struct DigitSet {
  std::vector<std::uint8_t> pixels;  // count * rows * cols, row by row; 0 is paper, 255 full ink
  std::vector<std::uint8_t> labels;  // count, each below kDigitClasses
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;
  double mean = 0.1307;  // of the pixels to train on, where full ink is 1; these are MNIST's
  double deviation = 0.3081;
};

struct Digits {
  DigitSet train;
  DigitSet test;
};

// Reads MNIST's four uncompressed idx files, as scripts/get-mnist leaves them. A file that is
// missing or is not what it should be throws Error, in one line with the remedy.
Digits load_mnist(const std::filesystem::path& folder);
// The same with Fashion-MNIST's, as scripts/get-fashion-mnist leaves them.
Digits load_fashion_mnist(const std::filesystem::path& folder);

}  // namespace starling
