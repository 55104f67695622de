#include "net/outbox.h"

#include <algorithm>

namespace starling {

void Outbox::post(Send& send) {
  Queue& queue = queues_[send.channel().id];
  queue.messages.push_back({&send, send.channel(), send.bytes, nullptr});
  if (!queue.linked() && &queue != turn_) waiting_.push_back(queue);
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
      std::make_shared<std::vector<std::byte>>(message->rest.begin(), message->rest.end());
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
  torn_ = turn_ != nullptr;
  turn_ = nullptr;
  return unfinished;
}

void Outbox::begin_fragment() {
  turn_ = waiting_.front();
  if (turn_ == nullptr) return;
  turn_->unlink();
  const Message& message = turn_->messages.front();
  header_.purpose = static_cast<std::uint8_t>(message.channel.purpose);
  header_.channel = message.channel.id;
  header_.remaining_bytes = message.rest.size();
  fragment_written_ = 0;
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
  return !waiting_.empty() || (turn_ != nullptr && turn_->messages.size() > 1);
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
    if (!turn_->messages.empty()) waiting_.push_back(*turn_);
    turn_ = nullptr;
  }
  return payload_after - payload_before;
}

}  // namespace starling
