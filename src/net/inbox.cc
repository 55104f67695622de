#include "net/inbox.h"

#include <fmt/format.h>

#include <algorithm>

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

Inbox::Stored* Inbox::landing_stored(std::uint32_t channel) {
  const auto found = std::ranges::find_if(
      stored_, [&](const Stored& s) { return s.channel == channel && !s.complete(); });
  return found == stored_.end() ? nullptr : &*found;
}

void Inbox::forget(const Stored& stored) {
  stored_bytes_ -= stored.bytes.size();
  std::erase_if(stored_, [&](const Stored& other) { return &other == &stored; });
}

void Inbox::post(Receive& receive) {
  const auto stored = std::ranges::find_if(
      stored_, [&](const Stored& s) { return s.channel == receive.channel().id && !s.discard; });
  if (stored == stored_.end()) return posted_.push_back(receive);

  check_size(stored->total_bytes, receive);
  std::copy_n(stored->bytes.begin(), stored->landed_bytes, receive.begin_landing().begin());
  if (stored->complete()) {
    finish_(receive);
  } else {  // what is still to come lands in its final place
    receive.claimed = true;
    receive.landed_bytes = stored->landed_bytes;
    landing_.push_back(receive);
  }
  forget(*stored);
}

void Inbox::withdraw(Receive& receive) {
  if (receive.claimed) {
    stored_.push_back({receive.channel().id, receive.bytes.size(), receive.landed_bytes, true, {}});
  }
  receive.unlink();
}

std::optional<Bytes> Inbox::place(const FrameHeader& header, std::size_t fragment_left_bytes) {
  Receive* receive = landing_receive(header.channel);
  Stored* stored = receive == nullptr ? landing_stored(header.channel) : nullptr;

  if (receive == nullptr && stored == nullptr) {  // a new message
    receive = posted_.find([&](const Receive& r) { return r.channel().id == header.channel; });
    if (receive != nullptr) {
      check_size(header.remaining_bytes, *receive);
      receive->claimed = true;
      receive->begin_landing();
      landing_.push_back(*receive);
    } else if ((unfinished() == nullptr && !keep_everything_) ||
               stored_bytes_ + header.remaining_bytes > kStoredLimitBytes) {
      return std::nullopt;
    } else {
      stored_bytes_ += header.remaining_bytes;
      stored_.push_back({header.channel, header.remaining_bytes, 0, false,
                         std::vector<std::byte>(header.remaining_bytes)});
      stored = &stored_.back();
    }
  }

  if (receive != nullptr) {
    if (receive->bytes.size() - receive->landed_bytes < fragment_left_bytes) {
      throw Error(fmt::format("rank {} broke the protocol in {}", receive->peer(),
                              receive->channel().operation));
    }
    return receive->bytes.subspan(receive->landed_bytes, fragment_left_bytes);
  }
  if (stored->total_bytes - stored->landed_bytes < fragment_left_bytes) {
    throw Error("a message is longer than its first fragment said");
  }
  if (stored->discard) {
    discarded_.resize(kFragmentBytes);
    return Bytes(discarded_).first(fragment_left_bytes);
  }
  return Bytes(stored->bytes).subspan(stored->landed_bytes, fragment_left_bytes);
}

void Inbox::landed(const FrameHeader& header, std::size_t bytes) {
  if (Receive* receive = landing_receive(header.channel)) {
    receive->landed_bytes += bytes;
    if (receive->landed_bytes == receive->bytes.size()) finish_(*receive);
  } else if (Stored* stored = landing_stored(header.channel)) {
    stored->landed_bytes += bytes;
    if (stored->discard && stored->complete()) forget(*stored);
  }
}

}  // namespace starling
