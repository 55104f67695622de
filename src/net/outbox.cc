#include "net/outbox.h"

#include <algorithm>
#include <utility>

namespace starling {

void Outbox::post(Send& send) {
  Queue& queue = queues_[send.channel().id];
  queue.messages.push_back({&send, send.channel(), send.head, send.bytes});
  if (!queue.linked()) wait_for_turn(queue);
}

void Outbox::wait_for_turn(Queue& queue) {
  if (!queue.messages.empty() && !queue.held && &queue != turn_ && &queue != &words_) {
    waiting_.push_back(queue);
  }
}

// A channel that we never sent anything on cannot have filled anybody's space.
void Outbox::hold(std::uint32_t channel) {
  const auto found = queues_.find(channel);
  if (found == queues_.end() || found->second.held) return;
  ++held_queues_;
  found->second.held = true;
  found->second.unlink();
}

void Outbox::resume(std::uint32_t channel) {
  const auto found = queues_.find(channel);
  if (found == queues_.end() || !found->second.held) return;
  --held_queues_;
  found->second.held = false;
  if (!found->second.linked()) wait_for_turn(found->second);
}

void Outbox::tell(FrameHeader::Kind kind, std::uint32_t channel) {
  words_.messages.push_back({nullptr, Channel{channel}, {}, {}, nullptr, kind});
}

void Outbox::withdraw(Send& send) {
  Queue& queue = queues_[send.channel().id];
  std::vector<Message>& messages = queue.messages;
  const auto message = std::ranges::find(messages, &send, &Message::send);
  const bool begun = message->rest.size() < send.bytes.size() ||
                     (turn_ != nullptr && turn_->messages.data() == &*message);
  if (!begun) {
    messages.erase(message);
    if (messages.empty()) queue.unlink();
    return;
  }
  message->send = nullptr;
  message->owned =
      std::make_shared<std::vector<std::byte>>(message->head.begin(), message->head.end());
  message->owned->insert(message->owned->end(), message->rest.begin(), message->rest.end());
  message->head = {};
  message->rest = *message->owned;
}

std::vector<Send*> Outbox::give_up() {
  std::vector<Send*> unfinished;
  for (const auto& [channel, queue] : queues_) {
    for (const Message& message : queue.messages) {
      if (message.send != nullptr) unfinished.push_back(message.send);
    }
  }
  queues_.clear();
  held_queues_ = 0;
  words_.messages.clear();
  torn_ = turn_ != nullptr;
  turn_ = nullptr;
  return unfinished;
}

void Outbox::begin_fragment() {
  turn_ = words_.messages.empty() ? waiting_.front() : &words_;
  if (turn_ == nullptr) return;
  turn_->unlink();
  const Message& message = turn_->messages.front();
  header_.kind = message.kind;
  header_.purpose = static_cast<std::uint8_t>(message.channel.purpose);
  header_.channel = message.channel.id;
  header_.remaining_bytes = message.head.size() + message.rest.size();
  fragment_written_ = 0;
}

std::array<ConstBytes, 3> Outbox::next() {
  if (turn_ == nullptr) begin_fragment();
  if (turn_ == nullptr) return {};
  const Message& message = turn_->messages.front();
  const std::size_t payload = fragment_bytes(header_.remaining_bytes);
  std::array<ConstBytes, 3> parts = {std::as_bytes(std::span(&header_, 1)), message.head,
                                     message.rest.first(payload - message.head.size())};
  std::size_t written = fragment_written_;
  for (ConstBytes& part : parts) {
    const std::size_t of_part = std::min(written, part.size());
    part = part.subspan(of_part);
    written -= of_part;
  }
  return parts;
}

bool Outbox::has_more() const {
  return !waiting_.empty() || (turn_ != nullptr && turn_->messages.size() > 1 && !turn_->held);
}

std::size_t Outbox::written(std::size_t bytes) {
  const std::size_t payload_before =
      fragment_written_ - std::min(fragment_written_, sizeof(FrameHeader));
  fragment_written_ += bytes;
  const std::size_t payload_after =
      fragment_written_ - std::min(fragment_written_, sizeof(FrameHeader));
  const std::size_t fragment = fragment_bytes(header_.remaining_bytes);

  if (fragment_written_ == sizeof(FrameHeader) + fragment) {
    Message& message = turn_->messages.front();
    message.rest = message.rest.subspan(fragment - std::exchange(message.head, {}).size());
    if (message.rest.empty()) {
      Send* send = message.send;
      turn_->messages.erase(turn_->messages.begin());
      if (send != nullptr) finish_(*send);
    }
    wait_for_turn(*std::exchange(turn_, nullptr));
  }
  return payload_after - payload_before;
}

}  // namespace starling
