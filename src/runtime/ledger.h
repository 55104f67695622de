// The ledger: every byte by peer, direction and purpose. Payload is what the algorithms asked to be
// sent; wire is what went into the socket, framing and handshakes included. Only the transport
// writes here, and nothing above it can send without it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace starling {

enum class Purpose : std::uint8_t { control, weights, gradients, evaluation };
inline constexpr std::array<std::string_view, 4> kPurposeNames = {"control", "weights", "gradients",
                                                                  "evaluation"};

enum class Direction : std::uint8_t { sent, received };

struct ByteCount {
  std::uint64_t payload = 0;
  std::uint64_t wire = 0;

  ByteCount& operator+=(const ByteCount& other) {
    payload += other.payload;
    wire += other.wire;
    return *this;
  }
  bool operator==(const ByteCount&) const = default;
};

class Ledger {
 public:
  explicit Ledger(int size) : counts_(static_cast<std::size_t>(size)) {}

  void add(int peer, Direction direction, Purpose purpose, ByteCount bytes) {
    at(peer, direction, purpose) += bytes;
  }

  ByteCount count(int peer, Direction direction, Purpose purpose) const {
    return counts_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(direction)]
                  [static_cast<std::size_t>(purpose)];
  }
  ByteCount total(Direction direction, Purpose purpose) const {
    ByteCount sum;
    for (int peer = 0; peer < peers(); ++peer) sum += count(peer, direction, purpose);
    return sum;
  }
  ByteCount total_with(int peer, Direction direction) const {
    ByteCount sum;
    for (std::size_t i = 0; i < kPurposeNames.size(); ++i) {
      sum += count(peer, direction, static_cast<Purpose>(i));
    }
    return sum;
  }
  ByteCount total(Direction direction) const {
    ByteCount sum;
    for (std::size_t i = 0; i < kPurposeNames.size(); ++i) {
      sum += total(direction, static_cast<Purpose>(i));
    }
    return sum;
  }
  int peers() const { return static_cast<int>(counts_.size()); }

 private:
  using ByPurpose = std::array<ByteCount, kPurposeNames.size()>;

  ByteCount& at(int peer, Direction direction, Purpose purpose) {
    return counts_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(direction)]
                  [static_cast<std::size_t>(purpose)];
  }

  std::vector<std::array<ByPurpose, 2>> counts_;
};

}  // namespace starling
