#include "sim/sim_comm.h"

#include <map>

#include "base/check.h"
#include "runtime/frame.h"
#include "sim/cluster.h"

namespace starling {

Stream& SimComm::stream_from(int peer) {
  std::unique_ptr<Stream>& stream = streams_[static_cast<std::size_t>(peer)];
  if (!stream) stream = std::make_unique<Stream>(cluster_, cluster_.sim_comm(peer), *this);
  return *stream;
}

Stream& SimComm::stream_to(int peer) { return cluster_.sim_comm(peer).stream_from(rank()); }

void SimComm::account(int peer, Direction direction, Purpose purpose, std::size_t payload_bytes) {
  books().add(peer, direction, purpose, {payload_bytes, wire_bytes(payload_bytes)});
}

void SimComm::post(Send& send) {
  STARLING_CHECK(send.peer() >= 0 && send.peer() < size(), "rank {} sends to rank {}", rank(),
                 send.peer());
  if (auto lost = lost_cause(send)) return finish(send, lost);
  stream_to(send.peer()).post(send);
}

void SimComm::lose(int peer) {
  if (!alive_ || is_lost(peer)) return;
  stream_from(peer).close();
  note_loss(peer, Presence::dead, "it crashed");
  fail_lost_causes();
}

void SimComm::fail_lost_causes() {
  std::map<std::uint64_t, Send*> sends;  // in the order in which they were posted
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !is_lost_cause(peer)) continue;
    stream_to(peer).list_sends(sends);
    Stream& stream = stream_from(peer);
    while (Receive* receive = stream.first_receive()) {
      stream.withdraw(*receive);
      finish(*receive, lost_cause(*receive));
    }
  }
  for (const auto& [number, send] : sends) {
    stream_to(send->peer()).tear(*send);
    finish(*send, lost_cause(*send));
  }
}

}  // namespace starling
