// Link: an ordered, bounded pipe of bytes to one peer, and back. Joining and the mesh know nothing
// else of how bytes travel: TCP is one kind (net/tcp_link.h), the simulator has another
// (sim/sim_link.h).
//
// Nothing waits in here. A transfer moves what it can at once, which may be less than it was asked
// for, and when_readable and when_writable tell when another is worth a try.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "runtime/ledger.h"
#include "runtime/loop.h"

namespace starling {

class Link {
 public:
  enum class Status : std::uint8_t {
    moved,    // at least one byte
    not_now,  // there is nothing to read, or no room to write
    closed,   // the other end has hung up, and all that it wrote has been read
    broken,   // for the reason in `error`
  };
  struct Transfer {
    Status status;
    std::size_t bytes = 0;
    std::error_code error = {};
  };

  virtual ~Link() = default;  // closes it

  // As many parts as a frame has: its header, a message's head and its bytes. Together they hold at
  // least one byte. If more follows at once, what is written now need not leave alone.
  using Parts = std::array<ConstBytes, 3>;
  using Places = std::array<Bytes, 3>;
  virtual Transfer write_some(const Parts& parts, bool more_follows) = 0;
  virtual Transfer read_some(const Places& places) = 0;

  // Called once, later, when a transfer would not be in vain. A second one takes the place of the
  // first; an empty one, and close(), take it back.
  using Callback = std::function<void()>;
  virtual void when_readable(Callback callback) = 0;
  virtual void when_writable(Callback callback) = 0;

  // What was written still arrives, if the other end is there.
  virtual void close() = 0;

  // What can be told of the other end without reading; only while the link is not closed.
  struct Signs {
    bool established;              // it has not hung up
    std::uint64_t answered_bytes;  // it has acknowledged or sent; grows while it is there
    bool owes_answer;  // something is sent, or waits to be, that it has not acknowledged
  };
  virtual Signs signs_of_life() = 0;

  // The kernel's number for what lies underneath, which a forked child has, too; -1 if there is none.
  virtual int descriptor() { return -1; }

  // What the link has added to the bytes that it was given, and taken off those that came.
  virtual std::int64_t overhead_bytes(Direction) const { return 0; }

  Transfer write_some(ConstBytes bytes) { return write_some(Parts{bytes}, false); }
  Transfer read_some(Bytes place) { return read_some(Places{place}); }
};

// The other end has gone, or was never there.
class HungUp : public Error {
 public:
  using Error::Error;
};

// Last words: as many of these bytes as it takes at once.
void write_at_once(Link& link, ConstBytes bytes);

// For handshakes, outside the hot path.
Task<> read_exactly(Loop& loop, Link& link, Bytes bytes);
Task<> write_all(Loop& loop, Link& link, ConstBytes bytes);
Task<> until_readable(Loop& loop, Link& link);

}  // namespace starling
