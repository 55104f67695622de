// Raw: the floats as they are, four bytes each.
#include <fmt/format.h>

#include <cstring>

#include "codec/codec.h"

namespace starling {

namespace {

class Raw : public Codec {
 public:
  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    const ConstBytes bytes = bytes_of(values);
    code.assign(bytes.begin(), bytes.end());
    std::ranges::fill(values, 0.0f);
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() != into.size_bytes()) {
      throw BadCode(
          fmt::format("{} bytes are no raw code for {} elements", code.size(), into.size()));
    }
    for (std::size_t i = 0; i < into.size(); ++i) {
      float value;  // the code may lie anywhere, also where no float may
      std::memcpy(&value, &code[i * sizeof value], sizeof value);
      into[i] += value;
    }
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return elements * sizeof(float);
  }
};

}  // namespace

std::unique_ptr<Codec> make_raw() { return std::make_unique<Raw>(); }

}  // namespace starling
