// The journal of a shard: all that has happened to it, in order. Each server of the shard's chain
// (server/chain.h) keeps one, and they are the same:
//
//   A. The head writes a record before it changes the shard.
//   B. Each sends its records to the next that is left, in their order, and keeps them.
//   C. Who gets one does the same to its own copy, and writes it into its own journal.
//   D. The last one's records are safe. Receipts go back along the chain, and what is safe is kept
//      no more. The head answers workers only by what is safe, so that they never see what a
//      successor does not know.
//   E. When a server is lost, the next one behind it tells the next one before it how far it has
//      come, and gets what it lacks. Who has nobody before it any more is the head.
//   F. A newcomer, who has nothing, gets the shard as it is, block by block, between the records that
//      are written meanwhile; of those for blocks that it does not have yet it needs none. When it has
//      them all it is the last one.
//
// An update goes as the mean of its gradients, which is as much as one of them, and the optimizer
// is run at every server: that is less than to send its state, and the same to the bit.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <vector>

#include "runtime/group.h"
#include "server/chain.h"
#include "server/messages.h"

namespace starling {

struct Record {
  enum class Kind : std::uint32_t {
    plan,     // the work, and the blocks: bytes are KeyInfos
    weights,  // the first ones of a block
    update,   // of a block: bytes are PushNotes, then the gradient
    read,     // of a block by a worker
    ask,      // a worker asks for work
    tell,     // and is told of it
    stop,     // no more work
    done,     // a worker pushes no more
    outline,  // for who has nothing: bytes are KeyInfos, then a snapshot of all but the blocks
    state,    // of a block: bytes are a snapshot, or none if it has no weights yet
  };
  Kind kind = Kind::plan;
  std::uint32_t worker = 0;
  std::uint64_t number = 0;  // from 1 on
  std::uint64_t key = 0;
  std::uint64_t count = 0;  // of pushes in an update, or of keys in an outline
  double lr_factor = 0;
  std::uint64_t dropped = 0;  // gradients, so far
  std::uint64_t units = 0;
  std::uint64_t units_per_epoch = 0;
};

struct PushNote {
  std::uint64_t worker = 0;
  std::uint64_t clock = 0;
  std::uint64_t version = 0;
};

struct Receipt {
  std::uint64_t has = 0;   // the number of the last record that a server has,
  std::uint64_t safe = 0;  // and of the last that everybody behind it has, too
};

// Where a newcomer gets the shard from, piece by piece.
class PieceSource {
 public:
  virtual std::size_t pieces() const = 0;
  virtual Record piece(std::size_t number, std::vector<std::byte>& bytes) = 0;

 protected:
  ~PieceSource() = default;
};

class Journal {
 public:
  // Of the server at that position of the chain. If others of it are lost, is asked whether we may go on
  // without them; else what sends and follows ends with PeerLost, and nothing more is safe.
  Journal(
      Group group, const Chain& chain, int shard, int position,
      std::function<bool()> may_go_on = [] { return true; });

  std::uint64_t last() const { return last_; }
  // At the head: gives the record its number and writes it, with a copy of these bytes.
  void write(Record record, std::initializer_list<ConstBytes> bytes = {});

  // Until everything that has been written by now is safe.
  Task<> until_safe();

  // To those behind, for as long as it runs.
  Task<> send_on(PieceSource& shard);

  // Gives what comes from those before us to `replay`; returns when nobody is before us any more.
  using Replay = std::function<void(const Record& record, ConstBytes bytes)>;
  // No record has more bytes than `most_bytes` says, which is asked before each. A newcomer that was
  // left with part of the shard has to begin anew, and says so.
  Task<> follow(Replay replay, std::function<std::size_t()> most_bytes,
                std::function<bool()> begin_anew);

 private:
  struct Entry {
    Record record;
    Scratch<std::byte> bytes;
  };

  void keep(const Record& record, Scratch<std::byte> bytes);
  void note_safe(std::uint64_t number);
  Task<> send_to(int rank, PieceSource& shard);
  Task<> send_after(int rank, std::uint64_t has);
  Task<> hear_receipts(int rank);
  Task<> fill(int rank, PieceSource& shard);
  Channel to(int rank) const { return journal_channel(chain_.distance(shard_, rank)); }
  Channel from(int rank) const { return receipt_channel(chain_.distance(shard_, rank)); }
  Task<> follow(int before, const Replay& replay, const std::function<std::size_t()>& most_bytes);
  Task<> hear_records(int before, const Replay& replay,
                      const std::function<std::size_t()>& most_bytes);
  Task<> give_receipts(int before, std::uint64_t told);
  [[noreturn]] void complain(int rank, const char* of_what) const;

  Group group_;
  Chain chain_;
  int shard_, position_;
  std::function<bool()> may_go_on_;
  bool is_last_;
  bool fills_ = false;      // a newcomer behind us, who does not count yet
  std::deque<Entry> kept_;  // what is not safe yet, or a newcomer must still get, up to last_
  std::uint64_t last_ = 0, safe_ = 0;
  Bell written_, receipts_;
};

}  // namespace starling
