// Inbox: where one peer's messages land. A message whose receive is posted lands in the caller's
// memory; one that nobody asked for yet is left in the kernel, which slows its sender down, unless
// a receive on another channel waits behind it: then it is kept here, within a bound.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/comm.h"
#include "runtime/frame.h"

namespace starling {

class Inbox {
 public:
  // Called when a posted receive is complete.
  using Finish = std::function<void(Receive&)>;

  explicit Inbox(Finish finish) : finish_(std::move(finish)) {}

  void post(Receive& receive);
  void withdraw(Receive& receive);

  // Where the next bytes of the fragment behind this header go, or nothing while there is no place
  // for them. Throws Error if the message does not fit its receive.
  std::optional<Bytes> place(const FrameHeader& header, std::size_t fragment_left_bytes);
  // Says that so many bytes have been put there.
  void landed(const FrameHeader& header, std::size_t bytes);

  // Keep what nobody asked for even if nobody waits: the peer is gone, and we want to read to the
  // end.
  void keep_everything() { keep_everything_ = true; }

  // Any receive that is not complete; nullptr if there is none.
  Receive* unfinished() { return landing_.empty() ? posted_.front() : landing_.front(); }

 private:
  struct Stored {
    std::uint32_t channel;
    std::uint64_t total_bytes;
    std::uint64_t landed_bytes = 0;
    bool discard = false;  // its receive was withdrawn half-way
    std::vector<std::byte> bytes;

    bool complete() const { return landed_bytes == total_bytes; }
  };

  static constexpr std::uint64_t kStoredLimitBytes = 64 << 20;

  Receive* landing_receive(std::uint32_t channel);
  Stored* landing_stored(std::uint32_t channel);
  void forget(const Stored& stored);

  Finish finish_;
  // Apart, because a server posts thousands, of which a few are landing at any time.
  List<Receive> posted_;       // no message has come for them yet
  List<Receive> landing_;      // claimed by one
  std::deque<Stored> stored_;  // in the order of arrival
  std::uint64_t stored_bytes_ = 0;
  bool keep_everything_ = false;
  std::vector<std::byte> discarded_;
};

}  // namespace starling
