#include "mixing/letters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

namespace {

constexpr Channel kHeaderChannel{6, Purpose::control, "a letter"};
constexpr Channel kBytesChannel{7, Purpose::weights, "a letter"};
constexpr Channel kHereChannel{9, Purpose::control, "a letter"};
constexpr std::uint32_t kGoodbye = ~0u;

}  // namespace

Letters::Letters(Comm& comm, std::span<const int> peers, std::size_t largest_bytes)
    : comm_(comm), largest_bytes_(largest_bytes), news_(comm.loop()) {
  std::vector<int> ranks(peers.begin(), peers.end());
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  std::erase(ranks, comm.rank());
  for (int rank : ranks) {
    peers_.push_back(std::make_unique<Peer>(comm, rank));
    Peer& peer = *peers_.back();
    peer.receiving.emplace(receive_all(peer));
  }
}

Letters::Peer& Letters::at(int rank) const {
  const auto found = std::ranges::find(peers_, rank, &Peer::rank);
  STARLING_CHECK(found != peers_.end(), "rank {} is not a peer", rank);
  return **found;
}

Task<> Letters::receive_all(Peer& peer) {
  try {
    co_await receive_letters(peer);
  } catch (const PeerLost&) {  // the others go on
  } catch (...) {
    peer.failure = std::current_exception();  // for whoever reads the letters
  }
  peer.closed = true;
  news_.ring();
}

Task<> Letters::receive_letters(Peer& peer) {
  while (true) {
    LetterHeader header;
    co_await comm_.receive(peer.rank, kHeaderChannel, object_bytes(header));
    if (header.kind == kGoodbye) {
      peer.closed = true;
      news_.ring();
      continue;
    }
    if (header.bytes > largest_bytes_) {
      throw Error(fmt::format("rank {} announced a letter of {} bytes where {} are the most",
                              peer.rank, header.bytes, largest_bytes_),
                  "all workers must run the same program with the same model and settings");
    }
    peer.in.resize(header.bytes);
    co_await comm_.receive(peer.rank, kBytesChannel, Bytes(peer.in));
    peer.header = header;
    peer.unread = true;
    news_.ring();
    std::byte here{1};
    co_await comm_.send(peer.rank, kHereChannel, object_bytes(here));
    while (peer.unread) co_await peer.taken.rung();
  }
}

bool Letters::can_send(int peer) const {
  const Peer& to = at(peer);
  return !comm_.is_lost(peer) && (!to.sending || to.sending->done());
}

void Letters::send(int peer, LetterHeader header, ConstBytes bytes) {
  STARLING_CHECK(can_send(peer) && bytes.size() <= largest_bytes_, "cannot send to rank {}", peer);
  Peer& to = at(peer);
  header.bytes = bytes.size();
  to.out_header = header;
  to.out.assign(bytes.begin(), bytes.end());
  to.sending.emplace(deliver(to));
}

Task<> Letters::deliver(Peer& peer) {
  try {
    if (peer.out_header.kind == kGoodbye) {
      co_await comm_.send(peer.rank, kHeaderChannel, object_bytes(peer.out_header));
    } else {
      auto header = comm_.send_with_next(peer.rank, kHeaderChannel, object_bytes(peer.out_header));
      auto bytes = comm_.send(peer.rank, kBytesChannel, std::span(peer.out));
      co_await header;
      co_await bytes;
    }
  } catch (const PeerLost&) {
    if (returned_) returned_(peer.out_header);
    news_.ring();
    co_return;
  }
  if (peer.out_header.kind != kGoodbye) {
    try {
      std::byte here{};
      co_await comm_.receive(peer.rank, kHereChannel, object_bytes(here));
    } catch (const PeerLost&) {
    }
  }
  news_.ring();
}

bool Letters::close() {
  bool over = true;
  for (const auto& peer : peers_) {
    if (!peer->told_goodbye && can_send(peer->rank)) {
      LetterHeader goodbye;
      goodbye.kind = kGoodbye;
      send(peer->rank, goodbye, {});
      peer->told_goodbye = true;
    }
    const bool told = peer->told_goodbye || comm_.is_lost(peer->rank);
    const bool sent = !peer->sending || peer->sending->done();
    over = over && told && sent && peer->closed;
  }
  return over;
}

}  // namespace starling
