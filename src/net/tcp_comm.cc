#include "net/tcp_comm.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace starling {

namespace {

constexpr Time kLookEvery = std::chrono::milliseconds(250);
constexpr Time kJudgeAfter = std::chrono::milliseconds(300);  // everybody has looked by then

std::exception_ptr lost_error(int rank, const Operation& operation, const std::string& why) {
  return std::make_exception_ptr(PeerLost(
      rank, fmt::format("rank {} was lost in {} ({})", rank, operation.channel().operation, why)));
}

}  // namespace

TcpComm::TcpComm(TcpLoop& loop, int rank, std::vector<std::optional<Peer>> peers)
    : Comm(loop, rank, static_cast<int>(peers.size())), connections_(peers.size()) {
  for (int peer = 0; peer < size(); ++peer) {
    std::optional<Peer>& link = peers[static_cast<std::size_t>(peer)];
    if (!link) continue;
    books().add(peer, Direction::sent, Purpose::control, {0, link->handshake_sent_bytes});
    books().add(peer, Direction::received, Purpose::control, {0, link->handshake_received_bytes});
    Connection::Events events;
    events.received = [this](Receive& receive) { finish(receive); };
    events.sent = [this](Send& send) { finish(send); };
    events.moved = [this, peer](Direction direction, Purpose purpose, ByteCount bytes) {
      books().add(peer, direction, purpose, bytes);
    };
    events.left = [this, peer] { left(peer); };
    events.broken = [this, peer](int culprit, const std::string& why) {
      // A rank that blames us has lost its way to us: for us, it is the one that is gone.
      const bool blames_another = culprit >= 0 && culprit != this->rank() && culprit < size();
      if (!blames_another || losses_are_contained()) {
        suspect(peer, why);
      } else {
        lose(culprit, why);
      }
    };
    connections_[static_cast<std::size_t>(peer)] =
        std::make_shared<Connection>(std::move(link->socket), std::move(events));
    connections_[static_cast<std::size_t>(peer)]->read();
  }
  watch_.emplace(look_for_ends());
}

TcpComm::~TcpComm() {
  for (const auto& connection : connections_) {
    if (connection) connection->close(lost_ ? lost_->rank : suspect_ ? suspect_->rank : -1);
  }
}

Connection& TcpComm::connection(int peer) {
  STARLING_CHECK(peer >= 0 && peer < size(), "rank {} talks to rank {}", rank(), peer);
  return *connections_[static_cast<std::size_t>(peer)];
}

void TcpComm::post(Send& send) {
  Connection& to = connection(send.peer());
  if (auto lost = lost_cause(send)) return finish(send, lost);
  to.post(send);
}

void TcpComm::post(Receive& receive) {
  connection(receive.peer()).post(receive);  // it may be here already
  if (receive.done()) return;
  if (auto lost = lost_cause(receive)) finish(receive, lost);
}

std::exception_ptr TcpComm::lost_cause(const Operation& operation) const {
  if (lost_) return lost_error(lost_->rank, operation, lost_->why);
  const auto& peer = connections_[static_cast<std::size_t>(operation.peer())];
  if (!peer || peer->open() || suspect_) return nullptr;
  const auto found = contained_.find(operation.peer());
  return lost_error(operation.peer(), operation,
                    found == contained_.end() ? "it has left" : found->second);
}

// A rank that leaves in good order is missed only by those who still wait for it.
void TcpComm::left(int peer) { fail_all(peer, {peer, "it has left"}); }

// A rank that loses another hangs up on everybody, so an end without a word may be a mere
// consequence, and which one we see first is chance. Hence nobody hangs up before all have had the
// time to see who was first. Who hangs up on account of another says so, except in the middle of a
// frame: an end between two frames is the stronger sign.
void TcpComm::suspect(int peer, const std::string& why) {
  if (lost_) return;
  if (losses_are_contained()) {
    spdlog::info("rank {} was lost: {}; we go on without it", peer, why);
    contained_[peer] = why;
    fail_all(peer, {peer, why});
    return note_loss(peer);
  }
  const bool first = !suspect_;
  if (first || (connection(suspect_->rank).torn() && !connection(peer).torn())) {
    suspect_ = {peer, why};
  }
  if (first) judgement_.emplace(judge());
}

Task<> TcpComm::judge() {
  co_await sleep_until(loop(), loop().now() + kJudgeAfter);
  lose(suspect_->rank, suspect_->why);
}

// After a loss no operation can be trusted to end, so all fail, on whatever connection they wait.
void TcpComm::lose(int peer, const std::string& why) {
  if (lost_) return;
  spdlog::info("rank {} was lost: {}", peer, why);
  lost_ = {peer, why};
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) fail_all(other, *lost_);
  }
  note_loss(peer);
}

void TcpComm::fail_all(int peer, const Lost& lost) {
  Connection& broken = connection(peer);
  while (Receive* receive = broken.inbox().unfinished()) {
    finish(*receive, lost_error(lost.rank, *receive, lost.why));
  }
  for (Send* send : broken.outbox().give_up()) {
    finish(*send, lost_error(lost.rank, *send, lost.why));
  }
}

Task<> TcpComm::look_for_ends() {
  while (true) {
    co_await sleep_until(loop(), loop().now() + kLookEvery);
    for (const auto& connection : connections_) {
      if (connection) connection->look_for_end();
    }
  }
}

}  // namespace starling
