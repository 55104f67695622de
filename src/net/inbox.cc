#include "net/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace starling {

namespace {
void check_size(std::uint64_t message_bytes, const Receive& receive) {
  if (message_bytes != receive.size_bytes()) {
    throw Error(fmt::format("rank {} sent {} bytes in {} where {} were expected", receive.peer(),
                            message_bytes, receive.channel().operation, receive.size_bytes()),
                "all workers must run the same program with the same model and settings");
  }
}
}  // namespace

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
         ((unfinished() != nullptr || expects_word_) && stored_bytes_ + bytes <= kStoredLimitBytes);
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

void Inbox::post(Receive& receive) {
  posted_.push_back(receive);
  const std::uint32_t channel = receive.channel().id;
  resume(channel);
  const auto found = stored_.lower_bound(channel);
  if (found == stored_.end() || found->first != channel || found->second.discard) return;

  const Stored& stored = found->second;
  check_size(stored.total_bytes, receive);
  auto to = receive.begin_landing().begin();
  std::uint64_t left = stored.landed_bytes;
  for (const std::vector<std::byte>& fragment : stored.fragments) {
    const std::uint64_t bytes = std::min<std::uint64_t>(left, fragment.size());
    to = std::copy_n(fragment.begin(), bytes, to);
    left -= bytes;
  }
  if (stored.complete()) {
    finish_(receive);
  } else {  // what is still to come lands in its final place
    receive.claimed = true;
    receive.landed_bytes = stored.landed_bytes;
    landing_.push_back(receive);
  }
  forget(found);
}

void Inbox::withdraw(Receive& receive) {
  if (receive.claimed) {
    stored_.emplace(receive.channel().id, Stored{receive.bytes.size(), receive.landed_bytes, true});
  }
  receive.unlink();
}

std::optional<Bytes> Inbox::place(const FrameHeader& header, std::size_t fragment_left_bytes) {
  Receive* receive = landing_receive(header.channel);
  const auto stored = receive == nullptr ? landing_stored(header.channel) : stored_.end();

  if (receive == nullptr && stored == stored_.end()) {  // a new message
    receive = posted_.find([&](const Receive& r) { return r.channel().id == header.channel; });
    if (receive != nullptr) {
      check_size(header.remaining_bytes, *receive);
      receive->claimed = true;
      receive->begin_landing();
      landing_.push_back(*receive);
    }
  }

  if (receive != nullptr) {
    if (receive->bytes.size() - receive->landed_bytes < fragment_left_bytes) {
      throw Error(fmt::format("rank {} broke the protocol in {}", receive->peer(),
                              receive->channel().operation));
    }
    return receive->bytes.subspan(receive->landed_bytes, fragment_left_bytes);
  }
  if (stored != stored_.end()) {
    if (stored->second.total_bytes - stored->second.landed_bytes < fragment_left_bytes) {
      throw Error("a message is longer than its first fragment said");
    }
    if (stored->second.discard) {
      discarded_.resize(kFragmentBytes);
      return Bytes(discarded_).first(fragment_left_bytes);
    }
  }
  return place_in_store(header, stored, fragment_left_bytes);
}

std::optional<Bytes> Inbox::place_in_store(const FrameHeader& header, Store::iterator stored,
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
  return Bytes(stored->second.fragments.back()).last(fragment_left_bytes);
}

void Inbox::landed(const FrameHeader& header, std::size_t bytes) {
  if (Receive* receive = landing_receive(header.channel)) {
    receive->landed_bytes += bytes;
    if (receive->landed_bytes == receive->bytes.size()) finish_(*receive);
  } else if (const auto stored = landing_stored(header.channel); stored != stored_.end()) {
    stored->second.landed_bytes += bytes;
    if (stored->second.discard && stored->second.complete()) forget(stored);
  }
}

}  // namespace starling
