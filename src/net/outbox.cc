#include "net/outbox.h"

#include <algorithm>

namespace starling {

Outbox::Queue& Outbox::queue(std::uint32_t channel) {
  for (const auto& queue : queues_) {
    if (queue->channel == channel) return *queue;
  }
  queues_.push_back(std::make_unique<Queue>(Queue{channel, {}}));
  return *queues_.back();
}

void Outbox::post(Send& send) {
  queue(send.channel().id).messages.push_back({&send, send.channel(), send.bytes, nullptr});
}

void Outbox::withdraw(Send& send) {
  std::vector<Message>& messages = queue(send.channel().id).messages;
  const auto message = std::ranges::find(messages, &send, &Message::send);
  const bool begun = message->rest.size() < send.bytes.size() ||
                     (turn_ != nullptr && turn_->messages.data() == &*message);
  if (!begun) {
    messages.erase(message);
    return;
  }
  message->send = nullptr;
  message->owned =
      std::make_shared<std::vector<std::byte>>(message->rest.begin(), message->rest.end());
  message->rest = *message->owned;
}

std::vector<Send*> Outbox::give_up() {
  std::vector<Send*> unfinished;
  for (const auto& queue : queues_) {
    for (const Message& message : queue->messages) {
      if (message.send != nullptr) unfinished.push_back(message.send);
    }
  }
  queues_.clear();
  torn_ = turn_ != nullptr;
  turn_ = nullptr;
  return unfinished;
}

void Outbox::begin_fragment() {
  for (std::size_t i = 1; i <= queues_.size(); ++i) {
    const std::size_t candidate = (last_turn_ + i) % queues_.size();
    if (queues_[candidate]->messages.empty()) continue;
    last_turn_ = candidate;
    turn_ = queues_[candidate].get();
    const Message& message = turn_->messages.front();
    header_.purpose = static_cast<std::uint8_t>(message.channel.purpose);
    header_.channel = message.channel.id;
    header_.remaining_bytes = message.rest.size();
    fragment_written_ = 0;
    return;
  }
}

std::array<ConstBytes, 2> Outbox::next() {
  if (turn_ == nullptr) begin_fragment();
  if (turn_ == nullptr) return {};
  const ConstBytes header = std::as_bytes(std::span(&header_, 1));
  const ConstBytes payload =
      turn_->messages.front().rest.first(fragment_bytes(header_.remaining_bytes));
  const std::size_t of_header = std::min(fragment_written_, header.size());
  return {header.subspan(of_header), payload.subspan(fragment_written_ - of_header)};
}

bool Outbox::has_more() const {
  return std::ranges::any_of(queues_, [this](const auto& queue) {
    return queue->messages.size() > (queue.get() == turn_ ? 1u : 0u);
  });
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
    message.rest = message.rest.subspan(fragment);
    if (message.rest.empty()) {
      Send* send = message.send;
      turn_->messages.erase(turn_->messages.begin());
      if (send != nullptr) finish_(*send);
    }
    turn_ = nullptr;
  }
  return payload_after - payload_before;
}

}  // namespace starling
