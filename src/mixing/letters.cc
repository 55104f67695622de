#include "mixing/letters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

namespace {

constexpr Channel kHeaderChannel{0, Purpose::control, "a letter"};
constexpr Channel kBytesChannel{1, Purpose::weights, "a letter"};
constexpr Channel kComeChannel{2, Purpose::control, "a letter"};
constexpr std::uint32_t kGoodbye = ~0u;

}  // namespace

Letters::Letters(Group group, std::span<const int> peers, std::size_t largest_bytes, int rooms)
    : group_(group),
      largest_bytes_(largest_bytes),
      news_(group.loop()),
      coming_(group.loop(), rooms),
      going_(group.loop(), 1) {
  std::vector<int> ranks(peers.begin(), peers.end());
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  std::erase(ranks, group.rank());
  for (int rank : ranks) {
    peers_.push_back(std::make_unique<Peer>(group, rank));
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
    co_await group_.receive(peer.rank, kHeaderChannel, object_bytes(header));
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
    while (!coming_.has_room(header.bytes)) co_await coming_.freed().rung();
    SharedSheet sheet = std::make_shared<Sheet>(group_, header.bytes, coming_);
    {
      auto arrival = group_.receive(peer.rank, kBytesChannel, sheet->bytes());
      std::byte come{1};
      co_await group_.send(peer.rank, kComeChannel, object_bytes(come));
      co_await arrival;
    }
    peer.header = header;
    peer.in = std::move(sheet);
    peer.unread = true;
    news_.ring();
    while (peer.unread) co_await peer.taken.rung();
  }
}

bool Letters::can_send(int peer) const {
  const Peer& to = at(peer);
  return !group_.is_lost(peer) && (!to.sending || to.sending->done());
}

SharedSheet Letters::write(ConstBytes bytes) {
  STARLING_CHECK(can_write() && bytes.size() <= largest_bytes_, "no paper for {} bytes",
                 bytes.size());
  auto sheet = std::make_shared<Sheet>(group_, bytes.size(), going_);
  std::ranges::copy(bytes, sheet->bytes().begin());
  return sheet;
}

void Letters::send(int peer, LetterHeader header, SharedSheet sheet) {
  STARLING_CHECK(can_send(peer), "cannot send to rank {}", peer);
  Peer& to = at(peer);
  header.bytes = sheet ? sheet->bytes().size() : 0;
  to.out_header = header;
  to.out = std::move(sheet);
  to.sending.emplace(deliver(to));
}

Task<> Letters::deliver(Peer& peer) {
  try {
    co_await group_.send(peer.rank, kHeaderChannel, object_bytes(peer.out_header));
    if (peer.out_header.kind != kGoodbye) {
      std::byte come{};
      co_await group_.receive(peer.rank, kComeChannel, object_bytes(come));
      co_await group_.send(peer.rank, kBytesChannel, ConstBytes(peer.out->bytes()));
    }
  } catch (const PeerLost&) {
    if (returned_) returned_(peer.out_header);
  }
  peer.out.reset();
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
    const bool told = peer->told_goodbye || group_.is_lost(peer->rank);
    const bool sent = !peer->sending || peer->sending->done();
    over = over && told && sent && peer->closed;
  }
  return over;
}

}  // namespace starling
