#include "mixing/letters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

namespace {

constexpr Channel kLetterChannel{0, Purpose::weights, "a letter"};
constexpr Channel kGoodbyeChannel{0, Purpose::control, "a letter"};  // behind the last letter
constexpr Channel kThanksChannel{1, Purpose::control, "a letter"};
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
    peers_.push_back(std::make_unique<Peer>(group, rank, coming_));
    Peer& peer = *peers_.back();
    peer.receiving.emplace(receive_all(peer));
  }
  offering_.emplace(offer_room());
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
  peer.arrival = nullptr;
  if (!peer.unread) peer.in.reset();  // half a letter takes no room
  peer.closed = true;
  news_.ring();
}

Task<> Letters::receive_letters(Peer& peer) {
  while (true) {
    {
      Receive arrival = group_.receive(peer.rank, kLetterChannel, object_bytes(peer.header),
                                       largest_bytes_, peer);
      peer.arrival = &arrival;
      co_await arrival;
      peer.arrival = nullptr;
    }
    peer.closed = peer.closed || peer.header.kind == kGoodbye;
    peer.unread = peer.header.kind != kGoodbye;
    if (!peer.unread) peer.in.reset();  // a goodbye takes no room
    news_.ring();
    std::byte thanks{1};
    if (peer.unread) co_await group_.send(peer.rank, kThanksChannel, object_bytes(thanks));
  }
}

std::optional<Bytes> Letters::Peer::lend(std::size_t bytes) {
  if (unread || !coming.has_room(bytes)) return std::nullopt;
  in = std::make_shared<Sheet>(group, bytes, coming);
  return in->bytes();
}

// Everybody gets to be the first one to be asked.
Task<> Letters::offer_room() {
  for (std::size_t first = 0;; ++first) {
    co_await coming_.freed().rung();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = *peers_[(first + i) % peers_.size()];
      if (peer.arrival != nullptr) peer.arrival->ask_again();
    }
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
  to.out_header = header;
  to.out = std::move(sheet);
  to.sending.emplace(deliver(to));
}

Task<> Letters::deliver(Peer& peer) {
  const bool is_letter = peer.out != nullptr;
  const ConstBytes bytes = is_letter ? peer.out->bytes() : Bytes();
  bool has_left = false;
  try {
    co_await group_.send(peer.rank, is_letter ? kLetterChannel : kGoodbyeChannel,
                         object_bytes(peer.out_header), bytes);
    has_left = true;
    peer.out.reset();
    std::byte thanks{};
    if (is_letter) co_await group_.receive(peer.rank, kThanksChannel, object_bytes(thanks));
  } catch (const PeerLost&) {
    if (!has_left && returned_) returned_(peer.out_header);
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
