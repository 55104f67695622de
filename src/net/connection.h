// Connection: the framed stream to one peer, over a link.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "net/inbox.h"
#include "net/outbox.h"
#include "runtime/link.h"

namespace starling {

class Connection {
 public:
  struct Events {
    Inbox::Finish received;
    Outbox::Finish sent;
    std::function<void(Direction, Purpose, ByteCount)> moved;
    std::function<void()> left;  // said goodbye
    std::function<void(int culprit, const std::string& why)> broken;
  };
  // Culprits that are no rank: whoever cut the line, and the peer itself.
  static constexpr int kNobody = -1, kPeer = -2;

  // Of the first header so many bytes have been read already.
  Connection(std::unique_ptr<Link> link, const FrameHeader& first, std::size_t first_bytes,
             Events events);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void post(Send& send);
  void post(Receive& receive);
  void withdraw(Send& send) { outbox_.withdraw(send); }
  void withdraw(Receive& receive) { inbox_.withdraw(receive); }

  Inbox& inbox() { return inbox_; }
  Outbox& outbox() { return outbox_; }

  // Reads what is there and goes on reading when more comes, as long as it has a place to go.
  void read();
  // A connection that we do not read from cannot tell us that it was closed; this looks.
  void look_for_end();

  // Says goodbye, or on whose account we give up (culprit >= 0), as far as the link takes it at once.
  void close(int culprit);
  bool open() const { return open_; }
  // Whether what came in ends within a frame.
  bool torn() const { return in_fragment_ || next_got_bytes_ > 0; }

  // Since when the peer owes us a sign of life; `now` if it does not. Only while it is open.
  Time unanswered_since(Time now);
  // It has given one elsewhere.
  void has_answered(Time now) { unanswered_since_ = now; }

  Link& link() { return *link_; }

 private:
  void write();
  void write_words();
  void read_fragments();
  void begin_fragment();
  std::uint64_t overhead(Direction direction);
  void count_overhead_received();
  void fail(int culprit, const std::string& why);

  std::unique_ptr<Link> link_;
  Events events_;
  Inbox inbox_;
  Outbox outbox_;
  bool open_ = true;
  bool hung_up_ = false;  // we have; the peer gets no more words
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool paused_ = false;     // a message has come that has no place yet
  bool has_words_ = false;  // the inbox has something to say to the peer, or the outbox may go on

  std::uint64_t answered_bytes_ = 0;  // acknowledged and received, when we last looked
  Time unanswered_since_{0};

  std::array<std::uint64_t, 2> overhead_ = {};  // that was counted, by direction

  FrameHeader header_;  // of the fragment that is landing
  bool in_fragment_ = false;
  std::size_t fragment_left_bytes_ = 0;
  FrameHeader next_header_;
  std::size_t next_got_bytes_ = 0;
};

}  // namespace starling
