// Inbox: where one peer's messages land. A message whose receive is posted lands in the caller's
// memory. One that nobody asked for yet is left in the kernel, which slows its sender down, unless
// something waits behind it: a receive on another channel, or the word that a channel of ours may
// go on. Then it is kept here.
// A receive whose lender has no room counts for nothing until it asks again, and the peer is asked
// at once to hold its channel back.
//
// What is kept is bounded. Above kHoldAboveBytes the peer is asked to hold back the channel that
// takes the space until its receive is posted, so that only what was under way already is still
// kept, and messages of other channels come through however long the unread one is. A peer that
// does not listen is read no further at kStoredLimitBytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/comm.h"
#include "runtime/frame.h"

namespace starling {

class Inbox {
 public:
  static constexpr std::uint64_t kHoldAboveBytes = 16 << 20;
  static constexpr std::uint64_t kStoredLimitBytes = 64 << 20;

  // What a kept message counts for besides its bytes: a flood of tiny ones ends soon, too.
  static constexpr std::uint64_t kMessageCostBytes = 4096;

  // Called when a posted receive is complete.
  using Finish = std::function<void(Receive&)>;
  // Called to ask the peer to hold or resume a channel.
  using Tell = std::function<void(FrameHeader::Kind, std::uint32_t channel)>;

  Inbox(Finish finish, Tell tell) : finish_(std::move(finish)), tell_(std::move(tell)) {}

  // Throws Error if the message is here already and does not fit; the receive then waits for its
  // failure like any other.
  void post(Receive& receive);
  void withdraw(Receive& receive);

  // Where the next bytes of the fragment behind this header go, or nothing while there is no place
  // for them. Throws Error if the message does not fit its receive.
  using Place = std::array<Bytes, 2>;
  std::optional<Place> place(const FrameHeader& header, std::size_t fragment_left_bytes);
  // Says that so many bytes have been put there.
  void landed(const FrameHeader& header, std::size_t bytes);

  // Keep what nobody asked for even if nobody waits and there is no room: the peer is gone, what it
  // left behind is not more than the kernel holds, and we want to read to the end.
  void keep_everything() { keep_everything_ = true; }

  // Whether the peer holds a channel of ours back, and its word to go on is to be read.
  void expect_word(bool expected) { expects_word_ = expected; }

  // Whether a receive is posted on that channel for which nothing has come.
  bool awaits(std::uint32_t channel) {
    return posted_.find([&](const Receive& r) { return r.channel().id == channel; }) != nullptr;
  }

  // Looks at each receive that is not complete.
  template <class Look>
  void each_unfinished(const Look& look) {
    const auto pass = [&](const Receive& receive) {
      look(receive);
      return false;
    };
    for (auto* list : {&landing_, &posted_, &declined_}) list->find(pass);
  }
  // Any receive that is not complete; nullptr if there is none.
  Receive* unfinished() {
    for (List<Receive>* list : {&landing_, &posted_, &declined_}) {
      if (!list->empty()) return list->front();
    }
    return nullptr;
  }

 private:
  struct Stored {
    std::uint64_t total_bytes;
    std::uint64_t landed_bytes = 0;
    bool discard = false;  // its receive was withdrawn half-way
    // One at a time, as they come: a header alone can make us allocate no more than a fragment.
    std::vector<std::vector<std::byte>> fragments = {};
    std::uint64_t fragments_bytes = 0;

    bool complete() const { return landed_bytes == total_bytes; }
  };

  using Store = std::multimap<std::uint32_t, Stored>;

  Receive* landing_receive(std::uint32_t channel);
  Store::iterator landing_stored(std::uint32_t channel);
  bool claim(Receive& receive, std::uint64_t message_bytes);
  std::optional<Place> place_in_store(const FrameHeader& header, Store::iterator stored,
                                      std::size_t fragment_left_bytes);
  bool somebody_waits() const { return !posted_.empty() || !landing_.empty(); }
  bool has_room(std::uint64_t bytes);
  void hold(std::uint32_t channel);
  void resume(std::uint32_t channel);
  void forget(Store::iterator stored);

  Finish finish_;
  Tell tell_;
  // Apart, because a server posts thousands, of which a few are landing at any time.
  List<Receive> posted_;    // no message has come for them yet
  List<Receive> landing_;   // claimed by one
  List<Receive> declined_;  // one has come, but their lender has no room
  Store stored_;            // by channel, those of a channel in the order of arrival
  std::uint64_t stored_bytes_ = 0;
  std::set<std::uint32_t> held_;  // the channels that the peer was asked to hold back
  bool keep_everything_ = false;
  bool expects_word_ = false;
  std::vector<std::byte> discarded_;
};

}  // namespace starling
