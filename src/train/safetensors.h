// Models as safetensors files, which PyTorch, JAX and most tools around them read: a header length
// of 8 bytes (little-endian), a JSON header of names, shapes and byte ranges, then the elements.
// Unlike a pickle, reading one runs nobody's code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/whole_file.h"

namespace starling {

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;  // empty for a single number

  std::size_t elements() const;
};

// A file that is written tensor by tensor, so that none but one need be in memory. It appears whole or
// not at all: it is written beside `file` under another name, synced to the disk, then renamed, so a
// crash leaves the old model in place. Names are unique. Throws Error if the disk or the folder does
// not let it, or if a name or metadata is not UTF-8.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& file, std::vector<NamedShape> tensors,
                    const std::map<std::string, std::string>& metadata);

  // The next tensor's values.
  void add(std::span<const float> values);
  // All tensors are there.
  void commit();

 private:
  std::vector<NamedShape> tensors_;
  std::size_t written_ = 0;
  WholeFile pending_;
};

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};
void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::variant<std::vector<float>, std::vector<std::int64_t>> values;  // F32 or I64
};

struct TensorFile {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;

  const StoredTensor* find(std::string_view name) const;  // null if there is none
};

// Throws Error, in one line, unless the file is a whole and sound safetensors file of F32 and I64
// tensors.
TensorFile read_safetensors(const std::filesystem::path& file);

}  // namespace starling
