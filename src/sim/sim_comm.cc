#include "sim/sim_comm.h"

#include <fmt/format.h>

#include <map>

#include "base/check.h"
#include "runtime/frame.h"
#include "sim/cluster.h"

namespace starling {

Stream& SimComm::stream_from(int peer) {
  std::unique_ptr<Stream>& stream = streams_[peer];
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

void SimComm::see_end(int peer, std::optional<int> culprit) {
  if (is_stopped()) return stream_from(peer).end(culprit);
  if (Stream* stream = find_stream_from(peer)) return stream->end(culprit);
  culprit ? see_give_up(peer, *culprit) : see_leave(peer);
}

void SimComm::see_leave(int peer) {
  if (!alive_ || presence(peer) != Presence::here) return;
  if (Stream* stream = find_stream_from(peer)) stream->close();
  note_left(peer);
  fail_lost_causes(peer, peer);
}

void SimComm::see_give_up(int peer, int culprit) {
  if (culprit == peer) return lose(peer, Presence::dead, "it ended before its time");
  if (culprit == rank()) return lose(peer, Presence::dead, "it has lost us");
  // Whoever has left in good order cannot be lost any more; who gave up on its account can.
  if (losses_are_contained() || presence(culprit) == Presence::left) {
    return lose(peer, Presence::dead, fmt::format("it gave up because of rank {}", culprit));
  }
  lose(culprit, Presence::dead, fmt::format("rank {} reported it", peer));
}

void SimComm::refuse(int peer, const std::string& why) {
  lose(peer, Presence::dead, why);
  cluster_.tell(rank(), peer,
                [this, &other = cluster_.sim_comm(peer)] { other.see_end(rank(), other.rank()); });
}

void SimComm::go_on() {
  own_loop_.go_on();
  if (is_stopped()) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (Stream* stream = find_stream_from(peer)) stream->go_on();
  }
  const std::vector<int> missed(missed_.begin(), missed_.end());
  missed_.clear();
  if (!missed.empty()) miss(missed);
}

void SimComm::miss(const std::vector<int>& silent) {
  if (!alive_) return;
  if (is_stopped()) {
    missed_.insert(silent.begin(), silent.end());
    return;
  }
  std::vector<Presence> everybody;
  for (int peer = 0; peer < size(); ++peer) everybody.push_back(presence(peer));
  for (int peer : silent) {
    Presence& seen = everybody[static_cast<std::size_t>(peer)];
    if (seen == Presence::here) seen = Presence::silent;
  }
  count_votes(everybody);
  if (is_cut_off()) return fail_lost_causes(0, size() - 1);
  for (int peer : silent) lose(peer, Presence::silent, "it does not answer");
}

void SimComm::lose(int peer, Presence how, const std::string& why) {
  if (!alive_ || culprit() || presence(peer) != Presence::here) return;
  stream_from(peer).close();
  note_loss(peer, how, why);
  fail_lost_causes(0, size() - 1);
}

void SimComm::fail_lost_causes(int first_peer, int last_peer) {
  std::map<std::uint64_t, Send*> sends;  // in the order in which they were posted
  for (int peer = first_peer; peer <= last_peer; ++peer) {
    if (peer == rank() || !is_lost_cause(peer)) continue;
    if (Stream* out = cluster_.sim_comm(peer).find_stream_from(rank())) out->list_sends(sends);
    Stream* in = find_stream_from(peer);
    while (Receive* receive = in == nullptr ? nullptr : in->first_receive()) {
      in->withdraw(*receive);
      finish(*receive, lost_cause(*receive));
    }
  }
  for (const auto& [number, send] : sends) {
    stream_to(send->peer()).tear(*send);
    finish(*send, lost_cause(*send));
  }
}

}  // namespace starling
