// Stream: the modelled connection from one rank to another, as the sockets have it (net/outbox.h,
// net/inbox.h), message by message:
//
//   A. A message waits until one byte of it fits into the kernel's buffers, then takes its place at
//      the sender's port. It can be withdrawn without a trace until its first byte leaves; after
//      that it arrives whole.
//   B. Its send is finished when its last byte has left the port and is in the kernel's hands: all
//      that the receiver has not read and does not wait for, up to that byte, must fit into
//      kSocketBufferBytes. Until then its memory must not change; that is checked.
//   C. At the other end messages are read in order. One whose receive is posted lands; one that
//      nobody asked for stays in the kernel, and all behind it, unless a receive on another channel
//      waits: then it is stored, within kStoredLimitBytes.
//
// Not modelled: channels do not take turns fragment by fragment, a message goes as a whole in the
// order of posting; a message longer than the buffers pays its time on the port at once; and the
// sender learns at once, not after a latency, that room was made.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "runtime/comm.h"
#include "sim/sim_loop.h"

namespace starling {

class Cluster;
class SimComm;

// Less than any connection has in both kernels together: what passes here passes there.
inline constexpr std::uint64_t kSocketBufferBytes = 256 * 1024;
// As in net/inbox.h.
inline constexpr std::uint64_t kStoredLimitBytes = 64 << 20;

class Stream {
 public:
  Stream(Cluster& cluster, SimComm& from, SimComm& to) : cluster_(cluster), from_(from), to_(to) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void post(Send& send);
  void withdraw(Send& send);
  void post(Receive& receive);
  void withdraw(Receive& receive);

  // The sends that are not finished, each with its number among all messages of the world.
  void list_sends(std::map<std::uint64_t, Send*>& sends) const;
  // A send that has failed: its message goes no further.
  void tear(const Send& send);
  Receive* first_receive() { return receives_.empty() ? declined_.front() : receives_.front(); }

  // The sender is gone: what has arrived can still be received, nothing more comes.
  void close();
  // Tells the receiver on whose account the sender gave up; or, behind all that is under way, that
  // it left in good order.
  void end(std::optional<int> culprit);

  // Nothing arrives until each cut is mended.
  void cut() { ++cuts_; }
  void mend();
  // Reads what has come while the receiver was stopped.
  void go_on();

 private:
  struct Message {
    std::uint64_t number;
    Send* send;  // nullptr once it is finished or withdrawn
    Channel channel;
    ConstBytes head, source;         // where it was sent from
    std::vector<std::byte> payload;  // as it was then
    std::uint64_t begin, end;        // in the stream
    bool claimed = false;            // a receive is posted for it
    bool at_port = false, left = false, arrived = false;
    bool was_cut = false;  // when it should have arrived
    Time begins{0};        // when its first byte leaves the port
    SimLoop::EventId leave{}, arrival{};
  };
  using Messages = std::list<Message>;

  // Whether what the sender has sent comes to the receiver's notice.
  bool is_heard() const;
  bool has_room_for(std::uint64_t end) const { return end <= reads_to() + kSocketBufferBytes; }
  std::uint64_t reads_to() const;
  void transmit(Message& message);
  void leave(Message& message);
  void arrive(Message& message);
  void be_here(Message& message);
  void read();
  void take_first();
  void store_first();
  void make_use_of_room();
  void show_end();
  void finish_send(Message& message);
  void check_unchanged(const Message& message) const;
  bool begin(Receive& receive, const Message& message);
  void decline(Receive& receive);
  void land(Receive& receive, const Message& message);
  void erase(Messages::iterator message);

  // The first receives of a channel are for its first messages: which ones have come together.
  Receive* unclaimed_receive(std::uint32_t channel);
  Message* unclaimed_message(std::uint32_t channel);
  void set_claimed(Message& message, bool claimed);
  void set_claimed(Receive& receive, bool claimed);
  void find_claimed_end();

  Cluster& cluster_;
  SimComm& from_;
  SimComm& to_;
  Messages messages_;  // not read yet, in order
  Messages stored_;    // read, but nobody has asked for them
  List<Receive> receives_;
  List<Receive> declined_;  // a message has come for them, but their lender has no room
  bool closed_ = false;
  int cuts_ = 0;
  bool ended_ = false;
  std::optional<int> culprit_;     // on whose account it ended
  std::uint64_t posted_end_ = 0;   // of the last message
  std::uint64_t read_end_ = 0;     // how far the receiver has read
  std::uint64_t claimed_end_ = 0;  // how far the posted receives will make it read
  std::uint64_t unclaimed_bytes_ = 0;
  std::uint64_t stored_bytes_ = 0;
  int unclaimed_receives_ = 0;
  int held_ = 0;  // messages that wait for room, to begin or to be finished
};

}  // namespace starling
