// A comm without sockets: what is to go out lies in its outbox until the test takes it, and what
// the test puts into its inbox has come. All talk is with rank 1.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "net/inbox.h"
#include "net/outbox.h"
#include "net/tcp_loop.h"

namespace starling {

class Desk : private TcpLoop, public Comm {
 public:
  Desk() : Comm(static_cast<TcpLoop&>(*this), 0, 2) {}

  // A fragment, as far as there is room for it; says whether there was.
  bool put(const FrameHeader& header, std::byte value = {}) {
    const std::size_t bytes = fragment_bytes(header.remaining_bytes);
    const auto place = inbox.place(header, bytes);
    if (!place) return false;
    for (const Bytes part : *place) std::ranges::fill(part, value);
    inbox.landed(header, bytes);
    return true;
  }
  bool put(Channel channel, std::uint64_t remaining_bytes, std::byte value = {}) {
    FrameHeader header;
    header.channel = channel.id;
    header.remaining_bytes = remaining_bytes;
    return put(header, value);
  }

  // The channel of the fragment that goes next, which is then gone; 0 if there is none.
  std::uint32_t take() {
    const auto [header, head, bytes] = outbox.next();
    if (header.empty()) return 0;
    FrameHeader frame;
    std::ranges::copy(header, object_bytes(frame).begin());
    outbox.written(header.size() + head.size() + bytes.size());
    return frame.channel;
  }

  Inbox inbox{
      [this](Receive& receive) { finish(receive); },
      [this](FrameHeader::Kind kind, std::uint32_t channel) { told.emplace_back(kind, channel); }};
  Outbox outbox{[this](Send& send) { finish(send); }};
  std::vector<std::pair<FrameHeader::Kind, std::uint32_t>> told;  // by the inbox to the peer

 private:
  void post(Send& send) override { outbox.post(send); }
  void post(Receive& receive) override { inbox.post(receive); }
  void withdraw(Send& send) override { outbox.withdraw(send); }
  void withdraw(Receive& receive) override { inbox.withdraw(receive); }
};

}  // namespace starling
