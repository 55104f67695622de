// Letters between workers that do not wait for each other. From every peer one letter at a time can
// lie here unread; the next one waits on its way, so that nobody can flood anybody. To every peer
// one letter at a time is leaving; whoever wants to send more must come back later.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/comm.h"
#include "runtime/running.h"

namespace starling {

struct LetterHeader {
  std::uint32_t kind = 0;
  float weight = 0;
  std::uint64_t clock = 0;  // how many steps its writer had done
  std::uint64_t bytes = 0;  // that follow
};

struct Letter {
  int from;
  LetterHeader header;
  ConstBytes bytes;
};

class Letters {
 public:
  // Peers may be named twice and may be lost at any time. No letter is longer than `largest_bytes`.
  Letters(Comm& comm, std::span<const int> peers, std::size_t largest_bytes);

  // Called with the header of a letter that never left because its receiver was lost.
  void on_return(std::function<void(const LetterHeader&)> action) { returned_ = std::move(action); }

  // Gives every letter that lies here to `read`, and makes room for the next one from there. A
  // letter that `read` says no to stays for the next time.
  template <class Read>
  void read_all(const Read& read) {
    for (const auto& peer : peers_) {
      if (peer->failure) std::rethrow_exception(peer->failure);
      if (!peer->unread || !read(Letter{peer->rank, peer->header, peer->in})) continue;
      peer->unread = false;
      peer->taken.ring();
    }
  }

  bool can_send(int peer) const;
  // Copies the bytes.
  void send(int peer, LetterHeader header, ConstBytes bytes);

  // Rings when a letter has come or left, or when there will be no more from somebody.
  Bell& news() { return news_; }

  // Tells everybody, as soon as it can, that this was all but for answers to what still comes.
  // Returns whether everybody has said so and all has left; until then there are letters to read.
  bool close();

 private:
  struct Peer {
    Peer(Comm& comm, int peer_rank) : rank(peer_rank), taken(comm.loop()) {}
    int rank;
    LetterHeader header;
    std::vector<std::byte> in;
    bool unread = false;
    bool closed = false;  // will write no more but answers
    bool told_goodbye = false;
    Bell taken;
    std::exception_ptr failure;
    LetterHeader out_header;
    std::vector<std::byte> out;
    std::optional<Running> receiving, sending;
  };

  Peer& at(int rank) const;
  Task<> receive_all(Peer& peer);
  Task<> receive_letters(Peer& peer);
  Task<> deliver(Peer& peer);

  Comm& comm_;
  std::size_t largest_bytes_;
  Bell news_;
  std::function<void(const LetterHeader&)> returned_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace starling
