// Outbox: what one peer still has to be sent. It holds no copies, only the callers' memory.
// Messages of one channel go in order; channels take turns, a fragment at a time, so that a long
// message delays a short one of another channel by one fragment at the most.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/comm.h"
#include "runtime/frame.h"
#include "runtime/list.h"

namespace starling {

class Outbox {
 public:
  // Called when all bytes of a send have been handed over.
  using Finish = std::function<void(Send&)>;

  explicit Outbox(Finish finish) : finish_(std::move(finish)) {}

  void post(Send& send);
  // A message that has begun must end, or the stream makes no sense any more: the rest is copied.
  void withdraw(Send& send);

  // At the peer's wish: its space for what nobody there has asked for yet is short.
  void hold(std::uint32_t channel);
  void resume(std::uint32_t channel);
  bool holds_back() const { return held_queues_ > 0; }
  // A word to the peer's outbox, which goes before the next fragment.
  void tell(FrameHeader::Kind kind, std::uint32_t channel);

  // What to write next: the rest of a frame's header and of its payload, which is a message's head
  // and bytes. All are empty when there is nothing.
  std::array<ConstBytes, 3> next();
  // Says that so many of those bytes have been written; returns how many of them were payload.
  std::size_t written(std::size_t bytes);
  Purpose purpose() const { return static_cast<Purpose>(header_.purpose); }

  // Whether another message waits behind the one that next() is of.
  bool has_more() const;

  // Looks at each send that is not finished.
  template <class Look>
  void each_unfinished(const Look& look) const {
    for (const auto& [channel, queue] : queues_) {
      for (const Message& message : queue.messages) {
        if (message.send != nullptr) look(*message.send);
      }
    }
  }

  // Between two fragments, where another frame may be put in.
  bool between_fragments() const { return turn_ == nullptr && !torn_; }

  // Forgets everything; returns the sends that will not be finished.
  std::vector<Send*> give_up();

 private:
  struct Message {
    Send* send;  // nullptr once withdrawn
    Channel channel;
    ConstBytes head;  // only in front of the first fragment
    ConstBytes rest;
    std::shared_ptr<std::vector<std::byte>> owned = nullptr;  // the rest of a withdrawn message
    FrameHeader::Kind kind = FrameHeader::Kind::message;
  };
  struct Queue : ListNode {
    std::vector<Message> messages;
    bool held = false;
  };

  void begin_fragment();
  void wait_for_turn(Queue& queue);

  Finish finish_;
  // By channel. None is forgotten: a channel is used again, and a large model has thousands.
  std::unordered_map<std::uint32_t, Queue> queues_;
  int held_queues_ = 0;
  List<Queue> waiting_;    // those with messages to go, in the order of their turns
  Queue words_;            // to the peer's outbox; they do not wait for a turn
  Queue* turn_ = nullptr;  // whose fragment is being written
  FrameHeader header_;
  std::size_t fragment_written_ = 0;  // of header and payload together
  bool torn_ = false;                 // given up in the middle of a fragment
};

}  // namespace starling
