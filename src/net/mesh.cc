#include "net/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/all.h"
#include "runtime/race.h"

namespace starling {

namespace {

constexpr Time kLookEvery = std::chrono::milliseconds(250);
constexpr Time kJudgeAfter = std::chrono::milliseconds(300);  // everybody has looked by then
constexpr Time kUnansweredFor = std::chrono::seconds(5);
constexpr Time kKnockPatience = std::chrono::seconds(4);  // the kernel calls at 0, 1 and 3 s

constexpr const char* kSilent = "it does not answer";

}  // namespace

Mesh::Mesh(Host& host, int rank, std::vector<std::optional<Peer>> peers)
    : ProcessComm(host.loop(), rank, static_cast<int>(peers.size())),
      host_(host),
      connections_(peers.size()),
      doors_(peers.size()) {
  // Either all can be called from their own machine only, or none: who is found on loopback calls
  // from there.
  if (std::ranges::all_of(peers,
                          [](const auto& peer) { return !peer || is_loopback(peer->door); })) {
    note_carrier(Carrier::loopback);
  }
  for (int peer = 0; peer < size(); ++peer) {
    std::optional<Peer>& found = peers[static_cast<std::size_t>(peer)];
    if (!found) continue;
    books().add(peer, Direction::sent, Purpose::control, {0, found->handshake_sent_bytes});
    books().add(peer, Direction::received, Purpose::control, {0, found->handshake_received_bytes});
    doors_[static_cast<std::size_t>(peer)] = found->door;
    Connection::Events events;
    events.received = [this](Receive& receive) { finish(receive); };
    events.sent = [this](Send& send) { finish(send); };
    events.moved = [this, peer](Direction direction, Purpose purpose, ByteCount bytes) {
      books().add(peer, direction, purpose, bytes);
    };
    events.left = [this, peer] {  // is missed only by those who still wait for it
      note_left(peer);
      fail_lost_causes();
    };
    events.broken = [this, peer](int culprit, const std::string& why) {
      broken(peer, culprit, why);
    };
    connections_[static_cast<std::size_t>(peer)] = std::make_unique<Connection>(
        std::move(found->link), found->first, found->first_bytes, std::move(events));
  }
  // The first frame of one may be about another.
  for (const auto& connection : connections_) {
    if (connection) connection->read();
  }
  watch_.emplace(watch());
}

Mesh::~Mesh() {
  const std::optional<int> other = culprit() || !first_suspect_ ? blamed() : first_suspect_;
  const int account = !is_cut_off() && other ? *other : has_failed() ? rank() : -1;
  for (const auto& connection : connections_) {
    if (connection) connection->close(account);
  }
}

Connection& Mesh::connection(int peer) {
  STARLING_CHECK(peer >= 0 && peer < size(), "rank {} talks to rank {}", rank(), peer);
  return *connections_[static_cast<std::size_t>(peer)];
}

std::vector<int> Mesh::awaited(std::uint32_t channel) {
  std::vector<int> ranks;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && connection(peer).inbox().awaits(channel)) ranks.push_back(peer);
  }
  return ranks;
}

std::vector<int> Mesh::descriptors() {
  std::vector<int> all;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) all.push_back(link(peer).descriptor());
  }
  return all;
}

void Mesh::each_unfinished(const std::function<void(const Operation&, bool sends)>& look) {
  for (const auto& each : connections_) {
    if (each) each->inbox().each_unfinished([&](const Receive& r) { look(r, false); });
  }
  for (const auto& each : connections_) {
    if (each) each->outbox().each_unfinished([&](const Send& s) { look(s, true); });
  }
}

void Mesh::post(Send& send) {
  Connection& to = connection(send.peer());
  if (auto lost = lost_cause(send)) return finish(send, lost);
  to.post(send);
}

void Mesh::post(Receive& receive) {
  connection(receive.peer()).post(receive);  // it may be here already
  if (receive.done()) return;
  if (auto lost = lost_cause(receive)) finish(receive, lost);
}

// A peer that gives up says on whose account.
void Mesh::broken(int peer, int culprit, const std::string& why) {
  if (culprit == Connection::kNobody || culprit >= size()) return suspect(peer, why);
  if (culprit == Connection::kPeer) return lose(peer, Presence::dead, why);
  if (culprit == peer) return lose(peer, Presence::dead, "it failed");
  if (culprit == rank()) {  // it has lost its way to us, and may go on if losses are contained
    // Or another has, who is silent to us, too, and has told it.
    if (losses_are_contained() || first_suspect_) return suspect(peer, "it has lost us");
    return lose(peer, Presence::dead, "it has lost us");
  }
  // Whoever has left in good order cannot be lost any more; who gave up on its account can.
  if (losses_are_contained() || presence(culprit) == Presence::left) {
    return lose(peer, Presence::dead, fmt::format("it gave up because of rank {}", culprit));
  }
  lose(culprit, Presence::dead, fmt::format("rank {} reported it", peer));
}

// A rank that loses another hangs up on everybody, so an end without a word may be a mere
// consequence, and which one we see first is chance. Hence nobody hangs up before all have had the
// time to see who was first. Who hangs up on account of another says so, except in the middle of a
// frame: an end between two frames is the stronger sign.
void Mesh::suspect(int peer, const std::string& why) {
  if (culprit() || is_cut_off() || presence(peer) != Presence::here) return;
  suspects_.emplace(peer, why);
  if (!first_suspect_ || (connection(*first_suspect_).torn() && !connection(peer).torn())) {
    first_suspect_ = peer;
  }
  if (!judgement_ || judgement_->done()) judgement_.emplace(judge());
}

Task<> Mesh::judge() {
  while (!suspects_.empty()) {
    co_await sleep_until(loop(), loop().now() + kJudgeAfter);
    std::vector<Presence> found(static_cast<std::size_t>(size()), Presence::here);
    co_await look_around(found);
    give_verdict(found);
  }
}

void Mesh::give_verdict(std::span<const Presence> found) {
  std::vector<Presence> everybody(found.begin(), found.end());
  for (auto suspect = suspects_.begin(); suspect != suspects_.end();) {
    const int peer = suspect->first;
    Presence& presence = everybody[static_cast<std::size_t>(peer)];
    if (presence == Presence::here && connection(peer).open()) {
      connection(peer).has_answered(loop().now());
      suspect = suspects_.erase(suspect);
    } else {
      if (presence == Presence::here) presence = Presence::silent;  // there, but not for us
      ++suspect;
    }
  }
  count_votes(everybody);
  const auto lost = std::exchange(suspects_, {});
  const std::optional<int> first = std::exchange(first_suspect_, std::nullopt);
  if (is_cut_off()) return fail_lost_causes();
  const auto lose_one = [&](int peer) {
    lose(peer, everybody[static_cast<std::size_t>(peer)], lost.at(peer));
  };
  if (first && lost.contains(*first)) lose_one(*first);
  for (const auto& [peer, why] : lost) {
    if (peer != first) lose_one(peer);
  }
}

void Mesh::lose(int peer, Presence how, const std::string& why) {
  if (culprit() || presence(peer) != Presence::here) return;
  spdlog::info("rank {} was lost: {}{}", peer, why,
               losses_are_contained() ? "; we go on without it" : "");
  if (peer != rank()) connection(peer).close(peer);
  suspects_.erase(peer);
  if (first_suspect_ == peer) first_suspect_.reset();
  note_loss(peer, how, why);
  fail_lost_causes();
}

// After a loss that is not contained no operation can be trusted to end, so all fail, on whatever
// connection they wait.
void Mesh::fail_lost_causes() {
  for (int peer = 0; peer < size(); ++peer) {
    const auto& connection = connections_[static_cast<std::size_t>(peer)];
    if (!connection || !is_lost_cause(peer)) continue;
    while (Receive* receive = connection->inbox().unfinished()) {
      finish(*receive, lost_cause(*receive));
    }
    for (Send* send : connection->outbox().give_up()) finish(*send, lost_cause(*send));
  }
}

Task<> Mesh::look_around(std::vector<Presence>& found) {
  std::vector<Task<>> knocks;
  for (int peer = 0; peer < size(); ++peer) {
    Presence& of_peer = found[static_cast<std::size_t>(peer)];
    of_peer = presence(peer);
    if (peer != rank() && of_peer == Presence::here) knocks.push_back(knock(peer, of_peer));
  }
  co_await all(std::move(knocks));
}

Task<> Mesh::knock(int peer, Presence& found) {
  found = Presence::silent;
  Task<int> contest = race(call(peer, found), sleep_until(loop(), loop().now() + kKnockPatience));
  co_await contest;
}

Task<> Mesh::call(int peer, Presence& found) {
  Task<Host::Answer> calling = host_.call(doors_[static_cast<std::size_t>(peer)]);
  const Host::Answer answer = co_await calling;
  if (answer.link) found = Presence::here;
  if (answer.refused) found = Presence::dead;
}

// The kernel finds out by itself about idle connections; here are those that are not: where we do
// not read, so that nobody tells us of an end, and where what we have sent is not answered.
Task<> Mesh::watch() {
  while (true) {
    co_await sleep_until(loop(), loop().now() + kLookEvery);
    for (int peer = 0; peer < size(); ++peer) {
      const auto& connection = connections_[static_cast<std::size_t>(peer)];
      if (!connection || !connection->open()) continue;
      connection->look_for_end();
      if (!connection->open()) continue;
      if (connection->unanswered_since(loop().now()) + kUnansweredFor < loop().now()) {
        suspect(peer, kSilent);
      }
    }
  }
}

}  // namespace starling
