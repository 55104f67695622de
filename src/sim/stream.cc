#include "sim/stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/frame.h"
#include "sim/cluster.h"
#include "sim/sim_comm.h"

namespace starling {

void Stream::post(Send& send) {
  const std::uint64_t begin = posted_end_;
  posted_end_ += wire_bytes(send.size_bytes());
  Message& message = messages_.emplace_back(Message{cluster_.next_number(),
                                                    &send,
                                                    send.channel(),
                                                    send.head,
                                                    send.bytes,
                                                    {},
                                                    begin,
                                                    posted_end_});
  message.payload.assign(send.head.begin(), send.head.end());
  message.payload.insert(message.payload.end(), send.bytes.begin(), send.bytes.end());
  unclaimed_bytes_ += message.payload.size();
  if (Receive* receive = unclaimed_receive(send.channel().id)) {
    set_claimed(*receive, true);
    set_claimed(message, true);
  }
  const bool first = messages_.size() == 1 || std::prev(messages_.end(), 2)->at_port;
  if (first && has_room_for(begin + 1)) {
    transmit(message);
  } else {
    ++held_;
  }
}

void Stream::withdraw(Send& send) {
  const auto message = std::ranges::find(messages_, &send, &Message::send);
  const bool begun = message->at_port && message->begins <= cluster_.loop().now();
  if (!begun || !from_.alive()) return erase(message);
  check_unchanged(*message);
  if (message->left) --held_;
  message->send = nullptr;
}

void Stream::post(Receive& receive) {
  const std::uint32_t channel = receive.channel().id;
  const auto stored = std::ranges::find_if(
      stored_, [channel](const Message& each) { return each.channel.id == channel; });
  if (stored != stored_.end()) {
    if (!begin(receive, *stored)) {
      if (auto lost = to_.lost_cause(receive)) return to_.finish(receive, lost);
      return declined_.push_back(receive);
    }
    land(receive, *stored);
    stored_bytes_ -= stored->payload.size();
    stored_.erase(stored);
    read();  // there is room in the store again
  } else if (auto lost = to_.lost_cause(receive)) {
    to_.finish(receive, lost);
  } else {
    receives_.push_back(receive);
    ++unclaimed_receives_;
    if (Message* message = unclaimed_message(channel)) {
      set_claimed(receive, true);
      set_claimed(*message, true);
    }
    read();
  }
}

void Stream::withdraw(Receive& receive) {
  receive.unlink();
  if (receive.declined) return;
  if (!receive.claimed) {
    --unclaimed_receives_;
  } else if (Receive* heir = unclaimed_receive(receive.channel().id)) {
    set_claimed(*heir, true);
  } else {
    const auto last =
        std::find_if(messages_.rbegin(), messages_.rend(), [&receive](const Message& each) {
          return each.claimed && each.channel.id == receive.channel().id;
        });
    set_claimed(*last, false);
  }
}

void Stream::list_sends(std::map<std::uint64_t, Send*>& sends) const {
  for (const Message& message : messages_) {
    if (message.send != nullptr) sends[message.number] = message.send;
  }
}

void Stream::tear(const Send& send) { erase(std::ranges::find(messages_, &send, &Message::send)); }

void Stream::close() {
  closed_ = true;
  while (!messages_.empty() && messages_.front().arrived && messages_.front().send == nullptr) {
    store_first();
  }
}

bool Stream::is_heard() const { return !closed_ && cuts_ == 0 && !to_.is_stopped(); }

// How far the receiver reads if it posts no further receive.
std::uint64_t Stream::reads_to() const {
  if (!is_heard()) return read_end_;
  const std::uint64_t wanted =
      unclaimed_receives_ > 0 ? posted_end_ : std::max(claimed_end_, read_end_);
  std::uint64_t stored = stored_bytes_;
  if (stored + unclaimed_bytes_ <= kStoredLimitBytes) return wanted;
  for (const Message& message : messages_) {
    if (message.end > wanted) break;
    if (!message.claimed) stored += message.payload.size();
    if (stored > kStoredLimitBytes) return message.begin;
  }
  return wanted;
}

void Stream::transmit(Message& message) {
  const Cluster::Passage passage =
      cluster_.pass(from_.rank(), to_.rank(), message.end - message.begin);
  message.at_port = true;
  message.begins = passage.begins;
  message.arrival = cluster_.loop().at(passage.arrives, [this, &message] { arrive(message); });
  message.leave = cluster_.loop().at(passage.leaves, [this, &message] { leave(message); });
  from_.account(to_.rank(), Direction::sent, message.channel.purpose, message.payload.size());
}

void Stream::leave(Message& message) {
  message.left = true;
  if (message.send == nullptr) return;
  if (has_room_for(message.end)) {
    finish_send(message);
  } else {
    ++held_;
  }
}

void Stream::arrive(Message& message) {
  if (closed_) return;
  if (cuts_ > 0) {
    message.was_cut = true;
    return;
  }
  be_here(message);
  go_on();
}

void Stream::be_here(Message& message) {
  message.arrived = true;
  cluster_.show(from_.rank(), to_.rank(), message.source);
}

void Stream::end(std::optional<int> culprit) {
  ended_ = true;
  culprit_ = culprit;
  show_end();
}

void Stream::show_end() {
  if (!ended_ || cuts_ > 0 || to_.is_stopped()) return;
  if (culprit_) return to_.see_give_up(from_.rank(), *culprit_);
  if (std::ranges::all_of(messages_, &Message::arrived)) to_.see_leave(from_.rank());
}

void Stream::go_on() {
  read();
  show_end();
}

void Stream::mend() {
  if (cuts_ == 0 || --cuts_ > 0) return;
  for (Message& message : messages_) {
    if (std::exchange(message.was_cut, false)) be_here(message);
  }
  go_on();
}

void Stream::read() {
  while (is_heard() && !messages_.empty() && messages_.front().arrived) {
    const Message& message = messages_.front();
    Receive* receive = receives_.find(
        [&](const Receive& each) { return each.channel().id == message.channel.id; });
    if (receive != nullptr && !begin(*receive, message)) {
      if (!closed_) decline(*receive);
    } else if (receive != nullptr) {
      land(*receive, message);
      take_first();
      messages_.pop_front();
    } else if (!receives_.empty() && stored_bytes_ + message.payload.size() <= kStoredLimitBytes) {
      store_first();
    } else {
      break;
    }
  }
  make_use_of_room();
}

// Out of the kernel, whoever has it then.
void Stream::take_first() {
  Message& message = messages_.front();
  to_.account(from_.rank(), Direction::received, message.channel.purpose, message.payload.size());
  read_end_ = message.end;
  if (!message.claimed) unclaimed_bytes_ -= message.payload.size();
  if (!message.left) {  // it arrives at the very time at which it leaves
    cluster_.loop().cancel(message.leave);
  } else if (message.send != nullptr) {
    --held_;
  }
  if (message.send != nullptr) finish_send(message);
}

void Stream::store_first() {
  take_first();
  stored_bytes_ += messages_.front().payload.size();
  stored_.splice(stored_.end(), messages_, messages_.begin());
}

void Stream::make_use_of_room() {
  for (Message& message : messages_) {
    if (held_ == 0) return;
    if (!message.at_port) {
      if (!has_room_for(message.begin + 1)) return;
      --held_;
      transmit(message);
    } else if (message.left && message.send != nullptr) {
      if (!has_room_for(message.end)) return;
      --held_;
      finish_send(message);
    }
  }
}

void Stream::finish_send(Message& message) {
  check_unchanged(message);
  from_.finish(*std::exchange(message.send, nullptr));
}

void Stream::check_unchanged(const Message& message) const {
  const auto behind_head =
      message.payload.begin() + static_cast<std::ptrdiff_t>(message.head.size());
  STARLING_CHECK(std::equal(message.head.begin(), message.head.end(), message.payload.begin()) &&
                     std::equal(message.source.begin(), message.source.end(), behind_head),
                 "rank {} changed the memory of a message to rank {} in {} before it was sent",
                 from_.rank(), to_.rank(), message.channel.operation);
}

// Whether the message can land there. One that does not fit ends the connection.
bool Stream::begin(Receive& receive, const Message& message) {
  try {
    return receive.begin(message.payload.size());
  } catch (const Error& error) {
    to_.refuse(from_.rank(), error.what());
    return false;
  }
}

// As if it were not posted, until it asks again.
void Stream::decline(Receive& receive) {
  receive.declined = false;
  withdraw(receive);
  receive.claimed = false;
  receive.declined = true;
  declined_.push_back(receive);
}

void Stream::land(Receive& receive, const Message& message) {
  receive.take(message.payload);
  to_.finish(receive);
}

void Stream::erase(Messages::iterator message) {
  const std::uint64_t bytes = message->end - message->begin;
  for (auto behind = std::next(message); behind != messages_.end(); ++behind) {
    behind->begin -= bytes;
    behind->end -= bytes;
  }
  posted_end_ -= bytes;
  if (!message->at_port || (message->left && message->send != nullptr)) --held_;
  if (message->at_port) {
    cluster_.loop().cancel(message->leave);
    cluster_.loop().cancel(message->arrival);
  }
  unclaimed_bytes_ -= message->claimed ? 0 : message->payload.size();
  const bool claimed = message->claimed;
  const std::uint32_t channel = message->channel.id;
  messages_.erase(message);
  find_claimed_end();
  if (claimed) {
    if (Message* heir = unclaimed_message(channel)) {
      set_claimed(*heir, true);
    } else {
      Receive* last = nullptr;
      receives_.find([&](Receive& each) {
        if (each.claimed && each.channel().id == channel) last = &each;
        return false;
      });
      set_claimed(*last, false);
    }
  }
  make_use_of_room();
}

Receive* Stream::unclaimed_receive(std::uint32_t channel) {
  if (unclaimed_receives_ == 0) return nullptr;
  return receives_.find(
      [channel](const Receive& each) { return !each.claimed && each.channel().id == channel; });
}

Stream::Message* Stream::unclaimed_message(std::uint32_t channel) {
  const auto found = std::ranges::find_if(messages_, [channel](const Message& each) {
    return !each.claimed && each.channel.id == channel;
  });
  return found == messages_.end() ? nullptr : &*found;
}

void Stream::set_claimed(Receive& receive, bool claimed) {
  receive.claimed = claimed;
  unclaimed_receives_ += claimed ? -1 : 1;
}

void Stream::set_claimed(Message& message, bool claimed) {
  message.claimed = claimed;
  if (claimed) {
    unclaimed_bytes_ -= message.payload.size();
    claimed_end_ = std::max(claimed_end_, message.end);
  } else {
    unclaimed_bytes_ += message.payload.size();
    find_claimed_end();
  }
}

void Stream::find_claimed_end() {
  claimed_end_ = read_end_;
  for (const Message& message : messages_) {
    if (message.claimed) claimed_end_ = message.end;
  }
}

}  // namespace starling
