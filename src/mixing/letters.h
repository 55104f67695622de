// Letters between workers that do not wait for each other. From every peer one letter at a time can
// lie here unread and another one be on its way, so that nobody can flood anybody:
//
//   A. Who writes sends its letter at once. It finds its place when the one before has been read.
//   B. Who gets it says thanks when it is there. Until then there is no other to that peer: whoever
//      wants to send more must come back later.
//
// A letter may be a whole model, so there is room for few at a time, however many peers there are:
// one that finds none waits, with its writer if it is long.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/group.h"
#include "runtime/running.h"

namespace starling {

struct LetterHeader {
  std::uint32_t kind = 0;
  float weight = 0;
  std::uint64_t clock = 0;  // how many steps its writer had done
};

// How much memory letters take that come in, or that go out.
class Shelf {
 public:
  // So many sheets, or more as long as they take no more than kBytes together.
  Shelf(Loop& loop, int sheets) : allowed_sheets_(sheets), freed_(loop) {}

  bool has_room(std::size_t bytes) const {
    return sheets_ < allowed_sheets_ || bytes_ + bytes <= kBytes;
  }
  Bell& freed() { return freed_; }

 private:
  friend class Sheet;
  static constexpr std::size_t kBytes = 8 << 20;  // short letters need not wait for each other

  int allowed_sheets_;
  int sheets_ = 0;
  std::size_t bytes_ = 0;
  Bell freed_;
};

// The memory of one letter, which several may hold: it can leave for several peers, be kept by who
// has read it, or go back with the answer written over it.
class Sheet {
 public:
  // On no shelf: somebody's own.
  Sheet(Group group, std::size_t bytes) : memory_(group.lend<std::byte>(bytes)) {}
  Sheet(Group group, std::size_t bytes, Shelf& shelf) : Sheet(group, bytes) {
    shelf_ = &shelf;
    ++shelf.sheets_;
    shelf.bytes_ += bytes;
  }
  Sheet(const Sheet&) = delete;
  Sheet& operator=(const Sheet&) = delete;
  ~Sheet() { take_from_shelf(); }

  Bytes bytes() const { return memory_.span(); }
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(bytes().data()), bytes().size() / sizeof(float)};
  }

  // Makes room for another: from now on this is its holder's own.
  void take_from_shelf() {
    if (shelf_ == nullptr) return;
    --shelf_->sheets_;
    shelf_->bytes_ -= bytes().size();
    std::exchange(shelf_, nullptr)->freed_.ring();
  }

 private:
  Scratch<std::byte> memory_;
  Shelf* shelf_ = nullptr;
};

using SharedSheet = std::shared_ptr<Sheet>;

struct Letter {
  int from;
  LetterHeader header;
  SharedSheet sheet;
};

class Letters {
 public:
  // The group's channels are for letters alone. Peers may be named twice and may be lost at any
  // time. No letter is longer than `largest_bytes`.
  // Of long letters, `rooms` may lie here unread or be read and still on the shelf.
  Letters(Group group, std::span<const int> peers, std::size_t largest_bytes, int rooms = 2);

  // Called with the header of a letter that never left because its receiver was lost.
  void on_return(std::function<void(const LetterHeader&)> action) { returned_ = std::move(action); }

  // Gives every letter that lies here to `read`, and makes room for the next one from there. A
  // letter that `read` says no to stays for the next time.
  template <class Read>
  void read_all(const Read& read) {
    for (const auto& peer : peers_) {
      if (peer->failure) std::rethrow_exception(peer->failure);
      if (!peer->unread || !read(Letter{peer->rank, peer->header, peer->in})) continue;
      peer->in.reset();
      peer->unread = false;
      coming_.freed().ring();
    }
  }

  // Whether there is paper for another letter beside those that are still leaving.
  bool can_write() const { return going_.has_room(largest_bytes_); }
  SharedSheet write(ConstBytes bytes);

  bool can_send(int peer) const;
  // The sheet must not change until it has left.
  void send(int peer, LetterHeader header, SharedSheet sheet);

  // Rings when a letter has come or left, or when there will be no more from somebody.
  Bell& news() { return news_; }

  // Tells everybody, as soon as it can, that this was all but for answers to what still comes.
  // Returns whether everybody has said so and all has left; until then there are letters to read.
  bool close();

 private:
  struct Peer : Lender {
    Peer(Group g, int peer_rank, Shelf& shelf) : group(g), rank(peer_rank), coming(shelf) {}
    // Finds a sheet for a letter that begins to arrive.
    std::optional<Bytes> lend(std::size_t bytes) override;

    Group group;
    int rank;
    Shelf& coming;
    Receive* arrival = nullptr;  // of the letter that is to come
    LetterHeader header;
    SharedSheet in;
    bool unread = false;
    bool closed = false;  // will write no more but answers
    bool told_goodbye = false;
    std::exception_ptr failure;
    LetterHeader out_header;
    SharedSheet out;
    std::optional<Running> receiving, sending;
  };

  Peer& at(int rank) const;
  Task<> receive_all(Peer& peer);
  Task<> receive_letters(Peer& peer);
  Task<> offer_room();
  Task<> deliver(Peer& peer);

  Group group_;
  std::size_t largest_bytes_;
  Bell news_;
  Shelf coming_, going_;
  std::function<void(const LetterHeader&)> returned_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::optional<Running> offering_;
};

}  // namespace starling
