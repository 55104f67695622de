// What a rank asks the others for when exchanges meet by name (exchange/named_exchanges.h), and how it
// goes over the wire. What comes from there may be anything: every length is bounded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/element.h"

namespace starling {

enum class Act : std::uint8_t {
  allreduce,
  allgather,
  broadcast,
  alltoall,
  reducescatter,
  barrier,
  join,  // no more will come from this rank until all have said so
};
inline constexpr std::array<std::string_view, 7> kActNames = {
    "allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join"};

// How values become one: math/reduce.h's reductions, and exchange/adasum.h.
enum class Blend : std::uint8_t { sum, mean, min, max, product, adasum };
inline constexpr std::array<std::string_view, 6> kBlendNames = {"sum", "average", "min",
                                                                "max", "product", "adasum"};

struct TensorForm {
  Element type = Element::f32;
  std::vector<std::uint64_t> shape;

  bool operator==(const TensorForm&) const = default;
  std::uint64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  std::uint64_t row_elements() const;
  std::uint64_t elements() const { return rows() * row_elements(); }
};

struct NamedRequest {
  static constexpr std::size_t kMostName = 4096;
  static constexpr std::size_t kMostTensors = 1 << 16;
  static constexpr std::size_t kMostDimensions = 64;
  static constexpr std::uint64_t kMostElements = std::uint64_t{1} << 42;
  static constexpr std::size_t kMostSplits = 4096;

  Act act = Act::allreduce;
  std::string name;
  Blend blend = Blend::sum;
  int root = 0;                       // its place in the group
  double before = 1, after = 1;       // factors
  std::vector<TensorForm> tensors;    // more than one: all of them together or none
  std::vector<std::uint64_t> splits;  // rows for each place

  bool operator==(const NamedRequest&) const = default;
};

// Throws Error where a request exceeds what may be asked for.
void check(const NamedRequest& request);

std::vector<std::byte> encode(const NamedRequest& request);
// Throws Error where these bytes are no request.
NamedRequest decode_request(ConstBytes bytes);

// Numbers and texts in a row of bytes, for messages that are longer than a struct.
class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put_bytes(ConstBytes bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Throws Error where there is less than is asked for.
class ByteReader {
 public:
  explicit ByteReader(ConstBytes bytes) : left_(bytes) {}

  template <class T>
  T get() {
    T value;
    const ConstBytes from = some(sizeof(T));
    std::copy(from.begin(), from.end(), std::as_writable_bytes(std::span(&value, 1)).begin());
    return value;
  }
  ConstBytes get_bytes(std::size_t most) { return some(get_count(most)); }
  std::string get_text(std::size_t most) {
    const ConstBytes text = get_bytes(most);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  // How many of something follow.
  std::uint32_t get_count(std::size_t most);
  bool empty() const { return left_.empty(); }

 private:
  ConstBytes some(std::size_t bytes);

  ConstBytes left_;
};

}  // namespace starling
