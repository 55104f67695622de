// The ledger: every byte by peer, direction and purpose. Payload is what the algorithms asked to be
// sent; wire is what went into the socket, framing and handshakes included. Only the transport
// writes here, and nothing above it can send without it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

namespace starling {

enum class Purpose : std::uint8_t {
  control,
  weights,
  gradients,
  evaluation,
  activations,
  replication
};
inline constexpr std::array<std::string_view, 6> kPurposeNames = {
    "control", "weights", "gradients", "evaluation", "activations", "replication"};

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
  static constexpr int kFormerPeers = -1;

  void add(int peer, Direction direction, Purpose purpose, ByteCount bytes) {
    counts_[peer][place(direction, purpose)] += bytes;
  }

  // All of another ledger, in which peers were others.
  void add_former(const Ledger& former) {
    for (const auto& [peer, counts] : former.counts_) {
      for (std::size_t i = 0; i < counts.size(); ++i) counts_[kFormerPeers][i] += counts[i];
    }
  }

  ByteCount count(int peer, Direction direction, Purpose purpose) const {
    const auto found = counts_.find(peer);
    return found == counts_.end() ? ByteCount{} : found->second[place(direction, purpose)];
  }
  ByteCount total(Direction direction, Purpose purpose) const {
    ByteCount sum;
    for (const auto& [peer, counts] : counts_) sum += counts[place(direction, purpose)];
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

 private:
  using Counts = std::array<ByteCount, 2 * kPurposeNames.size()>;

  static std::size_t place(Direction direction, Purpose purpose) {
    return static_cast<std::size_t>(direction) * kPurposeNames.size() +
           static_cast<std::size_t>(purpose);
  }

  // By peer, those that anything has gone to or come from: among thousands, that is few.
  std::map<int, Counts> counts_;
};

}  // namespace starling
