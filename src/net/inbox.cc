#include "net/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace starling {

Receive* Inbox::landing_receive(std::uint32_t channel) {
  return landing_.find([&](const Receive& r) { return r.channel().id == channel; });
}

// The last one of a channel may be under way still.
Inbox::Store::iterator Inbox::landing_stored(std::uint32_t channel) {
  const auto [first, behind] = stored_.equal_range(channel);
  if (first == behind) return stored_.end();
  const auto last = std::prev(behind);
  return last->second.complete() ? stored_.end() : last;
}

bool Inbox::has_room(std::uint64_t bytes) {
  return keep_everything_ ||
         ((somebody_waits() || expects_word_) && stored_bytes_ + bytes <= kStoredLimitBytes);
}

void Inbox::hold(std::uint32_t channel) {
  if (held_.insert(channel).second) tell_(FrameHeader::Kind::hold, channel);
}

void Inbox::resume(std::uint32_t channel) {
  if (held_.erase(channel) > 0) tell_(FrameHeader::Kind::resume, channel);
}

void Inbox::forget(Store::iterator stored) {
  if (!stored->second.discard) stored_bytes_ -= kMessageCostBytes + stored->second.fragments_bytes;
  stored_.erase(stored);
}

// Whether the message is for this receive, which has room for it.
bool Inbox::claim(Receive& receive, std::uint64_t message_bytes) {
  receive.claimed = receive.begin(message_bytes);
  (receive.claimed ? landing_ : declined_).push_back(receive);
  if (!receive.claimed) hold(receive.channel().id);
  return receive.claimed;
}

void Inbox::post(Receive& receive) {
  posted_.push_back(receive);
  const std::uint32_t channel = receive.channel().id;
  const auto found = stored_.lower_bound(channel);
  const bool is_here = found != stored_.end() && found->first == channel && !found->second.discard;
  if (is_here && !claim(receive, found->second.total_bytes)) return;
  resume(channel);
  if (!is_here) return;

  std::uint64_t left = found->second.landed_bytes;
  for (const std::vector<std::byte>& fragment : found->second.fragments) {
    const ConstBytes bytes =
        std::span(fragment).first(std::min<std::uint64_t>(left, fragment.size()));
    receive.take(bytes);
    left -= bytes.size();
  }
  // What is still to come lands in its final place.
  if (found->second.complete()) finish_(receive);
  forget(found);
}

void Inbox::withdraw(Receive& receive) {
  if (receive.claimed) {
    stored_.emplace(receive.channel().id, Stored{receive.landed_bytes() + receive.left_bytes(),
                                                 receive.landed_bytes(), true});
  }
  receive.unlink();
}

std::optional<Inbox::Place> Inbox::place(const FrameHeader& header,
                                         std::size_t fragment_left_bytes) {
  // What is behind this fragment is what the header says: else tiny ones without end would be kept.
  const auto continues = [&](std::uint64_t message_left_bytes) {
    return message_left_bytes >= fragment_left_bytes &&
           message_left_bytes - fragment_left_bytes ==
               header.remaining_bytes - fragment_bytes(header.remaining_bytes);
  };
  Receive* receive = landing_receive(header.channel);
  const auto stored = receive == nullptr ? landing_stored(header.channel) : stored_.end();

  if (receive == nullptr && stored == stored_.end()) {  // a new message
    receive = posted_.find([&](const Receive& r) { return r.channel().id == header.channel; });
    if (receive != nullptr && !claim(*receive, header.remaining_bytes)) receive = nullptr;
  }

  if (receive != nullptr) {
    if (!continues(receive->left_bytes())) {
      throw Error(fmt::format("rank {} broke the protocol in {}", receive->peer(),
                              receive->channel().operation));
    }
    return receive->next(fragment_left_bytes);
  }
  if (stored != stored_.end()) {
    if (!continues(stored->second.total_bytes - stored->second.landed_bytes)) {
      throw Error("a fragment says another length than its message");
    }
    if (stored->second.discard) {
      discarded_.resize(kFragmentBytes);
      return Place{Bytes(discarded_).first(fragment_left_bytes)};
    }
  }
  return place_in_store(header, stored, fragment_left_bytes);
}

std::optional<Inbox::Place> Inbox::place_in_store(const FrameHeader& header, Store::iterator stored,
                                                  std::size_t fragment_left_bytes) {
  const bool is_new = stored == stored_.end();
  if (is_new || stored->second.landed_bytes == stored->second.fragments_bytes) {  // a new fragment
    const std::uint64_t cost = fragment_left_bytes + (is_new ? kMessageCostBytes : 0);
    if (!has_room(cost)) return std::nullopt;
    if (is_new) stored = stored_.emplace(header.channel, Stored{header.remaining_bytes});
    stored->second.fragments.emplace_back(fragment_left_bytes);
    stored->second.fragments_bytes += fragment_left_bytes;
    stored_bytes_ += cost;
    if (stored_bytes_ > kHoldAboveBytes) hold(header.channel);
  }
  return Place{Bytes(stored->second.fragments.back()).last(fragment_left_bytes)};
}

void Inbox::landed(const FrameHeader& header, std::size_t bytes) {
  if (Receive* receive = landing_receive(header.channel)) {
    receive->landed(bytes);
    if (receive->left_bytes() == 0) finish_(*receive);
  } else if (const auto stored = landing_stored(header.channel); stored != stored_.end()) {
    stored->second.landed_bytes += bytes;
    if (stored->second.discard && stored->second.complete()) forget(stored);
  }
}

}  // namespace starling
