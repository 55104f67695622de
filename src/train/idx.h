// The idx format that MNIST is published in: a magic number (0, 0, element type, number of
// dimensions), each dimension as a big-endian 32-bit word, then the elements. Only unsigned bytes
// are read here.
//
// A file is somebody else's word, so nothing it says is believed before it is checked against the
// file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace starling {

struct IdxArray {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;
};

// Throws Error, naming the file and what is wrong with it, unless it is an idx file of unsigned
// bytes with exactly this many dimensions, none of them zero. The remedy is the caller's to add: it
// knows where the file came from.
IdxArray read_idx(const std::filesystem::path& file, std::size_t dimensions);

}  // namespace starling
