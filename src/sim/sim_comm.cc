#include "sim/sim_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/frame.h"
#include "sim/cluster.h"

namespace starling {

void SimComm::account(int peer, Direction direction, Purpose purpose, std::size_t payload_bytes) {
  books().add(peer, direction, purpose, {payload_bytes, wire_bytes(payload_bytes)});
}

void SimComm::post(Send& send) {
  STARLING_CHECK(send.peer() >= 0 && send.peer() < size(), "rank {} sends to rank {}", rank(),
                 send.peer());
  if (auto lost = lost_cause(send)) return finish(send, lost);
  const Time leaves = cluster_.transmit(*this, send);
  leaving_[&send] = events_.at(leaves, [this, &send] {
    leaving_.erase(&send);
    finish(send);
  });
}

void SimComm::withdraw(Send& send) {
  events_.cancel(leaving_.at(&send));
  leaving_.erase(&send);
}

void SimComm::post(Receive& receive) {
  const auto here = std::ranges::find_if(unexpected_, [&](const Message& message) {
    return message.from == receive.peer() && message.channel.id == receive.channel().id;
  });
  if (here != unexpected_.end()) {
    land(receive, *here);
    unexpected_.erase(here);
  } else if (auto lost = lost_cause(receive)) {
    finish(receive, lost);
  } else {
    receives_.push_back(receive);
  }
}

void SimComm::deliver(Message message) {
  if (!alive_ || is_lost(message.from)) return;
  account(message.from, Direction::received, message.channel.purpose, message.payload.size());
  Receive* receive = receives_.find([&](const Receive& posted) {
    return posted.peer() == message.from && posted.channel().id == message.channel.id;
  });
  if (receive != nullptr) {
    land(*receive, message);
  } else {
    unexpected_.push_back(std::move(message));
  }
}

void SimComm::land(Receive& receive, const Message& message) {
  STARLING_CHECK(receive.size_bytes() == message.payload.size(),
                 "rank {} sent {} bytes in {} where rank {} expected {}", message.from,
                 message.payload.size(), receive.channel().operation, rank(), receive.size_bytes());
  std::ranges::copy(message.payload, receive.begin_landing().begin());
  finish(receive);
}

void SimComm::lose(int peer) {
  if (!alive_ || is_lost(peer)) return;
  note_loss(peer, Presence::dead, "it crashed");
  // In the order in which they would have left, not in that of their addresses.
  std::map<SimLoop::EventId, Send*> sends;
  for (const auto& [send, event] : leaving_) {
    if (lost_cause(*send)) sends[event] = send;
  }
  for (const auto& [event, send] : sends) {
    events_.cancel(event);
    leaving_.erase(send);
    finish(*send, lost_cause(*send));
  }
  const auto is_lost_cause = [this](const Operation& each) { return lost_cause(each) != nullptr; };
  while (Receive* receive = receives_.find(is_lost_cause)) finish(*receive, lost_cause(*receive));
}

}  // namespace starling
