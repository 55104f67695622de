// Comm: framed messages between ranks, the one interface that every algorithm is written against.
//
// - A message goes to a peer on a channel. Messages of one channel between two ranks arrive in the
//   order sent; different channels do not wait for each other.
// - send() and receive() post the operation at once and return it; co_await it when its outcome
//   matters. A receive lands in the caller's memory, which must stay until the operation is done or
//   destroyed, or in memory that a Lender finds for it when it begins to arrive. A finished send
//   means that its memory may be reused, not that the peer has it.
// - A message may have a head, a short struct in front of its bytes, which has its own place at both
//   ends.
// - Sizes are agreed beforehand, or bounded where a Lender finds the memory: a message that does not
//   fit its receive breaks the peer's connection.
// - Destroying an operation withdraws it. When a peer is lost, every operation fails with PeerLost,
//   and so does every later one: nobody waits for a rank that will not come. An algorithm that can
//   do without a lost rank calls contain_losses() first: then only operations with that rank fail.
// - A rank that says goodbye has left in good order: operations with it fail, and nobody else's. One
//   that ends by an error is lost.
// - A rank that is cut off from most others (majority.h) must not go on for them: all of its
//   operations fail with CutOff.
// - A rank may send to itself. That costs no network, and the ledger does not count it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/bell.h"
#include "runtime/ledger.h"
#include "runtime/loop.h"
#include "runtime/majority.h"
#include "runtime/scratch.h"
#include "runtime/timeline.h"

namespace starling {

struct Channel {
  static constexpr const char* kUnnamed = "a message";

  std::uint32_t id = 0;
  Purpose purpose = Purpose::control;
  const char* operation = kUnnamed;  // for errors: "rank 2 was lost in <operation>"

  Channel in(const char* name) const { return {id, purpose, name}; }
  // For an exchange that may be part of another, whose name says more.
  Channel or_in(const char* name) const { return operation == kUnnamed ? in(name) : *this; }
};

class Comm;
class Group;  // runtime/group.h

class Operation : public Waiter {
 public:
  int peer() const { return peer_; }
  const Channel& channel() const { return channel_; }
  bool done() const { return done_; }
  std::uint64_t number() const { return number_; }

  bool await_ready() const noexcept { return done_; }
  void await_suspend(std::coroutine_handle<> awaiter) noexcept { coroutine = awaiter; }
  void await_resume() const {
    if (error_) std::rethrow_exception(error_);
  }

 protected:
  friend class Comm;
  Operation(Comm& comm, int peer, Channel channel) : comm_(comm), peer_(peer), channel_(channel) {}
  ~Operation() = default;

  Comm& comm_;
  int peer_;
  Channel channel_;
  bool done_ = false;
  std::uint64_t number_ = 0;  // in the order in which they were posted
  std::exception_ptr error_;
  Time begun_{0};  // for the timeline: since when its bytes have been on their way
};

class Send : public Operation {
 public:
  Send(Comm& comm, int peer, Channel channel, ConstBytes bytes, ConstBytes head = {});
  Send(const Group& group, int to, Channel channel, ConstBytes bytes, ConstBytes head = {});
  ~Send();

  std::size_t size_bytes() const { return head.size() + bytes.size(); }
  ConstBytes head, bytes;
};

// Heads are short, so that one never takes more than a message's first fragment.
inline constexpr std::size_t kMaxHeadBytes = 1024;

// Finds memory for a message when it begins to arrive and its size is known. Many receives can then
// be posted ahead, and only those under way take memory, which is that of an earlier one and still
// in the cache.
class Lender {
 public:
  // Nothing: there is no room now. The message waits, with its sender if it is long, until the
  // receive asks again; until then there must be no other receive on its channel.
  virtual std::optional<Bytes> lend(std::size_t bytes) = 0;

 protected:
  ~Lender() = default;
};

class Receive : public Operation {
 public:
  // Of a message of that very size.
  Receive(Comm& comm, int peer, Channel channel, Bytes bytes, Bytes head = {});
  Receive(const Group& group, int from, Channel channel, Bytes bytes, Bytes head = {});
  // Of one with any number of bytes up to `most_bytes` behind its head.
  Receive(Comm& comm, int peer, Channel channel, std::size_t most_bytes, Lender& lender,
          Bytes head = {});
  Receive(const Group& group, int from, Channel channel, std::size_t most_bytes, Lender& lender,
          Bytes head = {});
  ~Receive();

  // There may be room now, if the lender had none when it was asked.
  void ask_again();

  // For the transport. First begin(): false if the lender has no room, then it keeps the receive
  // aside. Throws Error if a message of that size does not belong here.
  bool begin(std::uint64_t message_bytes);
  // Where the next bytes go, and that so many of them have been put there.
  std::array<Bytes, 2> next(std::size_t most_bytes) const;
  void landed(std::size_t count) { landed_bytes_ += count; }
  void take(ConstBytes from);
  std::size_t landed_bytes() const { return landed_bytes_; }
  std::size_t left_bytes() const { return head.size() + bytes.size() - landed_bytes_; }

  Bytes head, bytes;
  bool claimed = false;   // a message is landing here, or will
  bool declined = false;  // one has come, and there was no room

 private:
  std::size_t most_bytes_;
  Lender* lender_ = nullptr;
  std::size_t landed_bytes_ = 0;
};

// What carries messages. Within a machine one costs more than its bytes, between machines it is the
// other way round.
enum class Carrier { network, loopback, shared_memory };

class Comm {
 public:
  Comm(Loop& loop, int rank, int size) : loop_(loop), rank_(rank), size_(size), losses_(loop) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  virtual ~Comm() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Loop& loop() { return loop_; }
  const Ledger& ledger() const { return ledger_; }
  // Counts on from what was sent and received before there was this Comm.
  void go_on_from(const Ledger& books) { ledger_.add_former(books); }
  Timeline& timeline() { return timeline_; }
  // Records on the timeline for as long as what it returns is kept.
  [[nodiscard]] Timeline::Scope record(Timeline::Kind kind, const char* name) {
    return Timeline::Scope(timeline_, loop_, kind, name);
  }

  // How many operations were posted so far; later ones have higher numbers.
  std::uint64_t posted() const { return posted_; }

  // All ranks say the same.
  Carrier carrier() const { return carrier_; }

  // Any rank, counted around the ring: ring(rank() - 1) is the predecessor.
  int ring(int position) const { return (position % size_ + size_) % size_; }

  [[nodiscard]] Send send(int peer, Channel channel, ConstBytes bytes) {
    return Send(*this, peer, channel, bytes);
  }
  [[nodiscard]] Receive receive(int peer, Channel channel, Bytes bytes) {
    return Receive(*this, peer, channel, bytes);
  }
  template <class T>
  [[nodiscard]] Send send(int peer, Channel channel, std::span<T> values) {
    return Send(*this, peer, channel, bytes_of(values));
  }
  template <class T>
  [[nodiscard]] Receive receive(int peer, Channel channel, std::span<T> values) {
    return Receive(*this, peer, channel, writable_bytes(values));
  }

  // From now on the loss of a rank is an event that only those who talk to it must deal with. The
  // voters (none: everybody) can go on for one another, so a split must leave only one side of them.
  void contain_losses(std::vector<int> voters) {
    losses_are_contained_ = true;
    voters_ = std::move(voters);
  }
  bool is_lost(int peer) const {
    return presence(peer) == Presence::silent || presence(peer) == Presence::dead;
  }
  int lost_count() const {
    return static_cast<int>(
        std::ranges::count_if(gone_, [this](const auto& peer) { return is_lost(peer.first); }));
  }
  // Those who have left in good order among them.
  int gone_count() const { return static_cast<int>(gone_.size()); }
  // Rings whenever another rank was lost.
  Bell& losses() { return losses_; }
  // Throws CutOff if this rank must not speak for the others.
  void check_not_cut_off() const {
    if (cut_off_) std::rethrow_exception(cut_off_);
  }

  // For groups, which are handles: keeps their ranks for as long as there is a Comm.
  const int* keep_ranks(std::span<const int> ranks) {
    return kept_ranks_.emplace_back(ranks.begin(), ranks.end()).data();
  }

  // Memory for an exchange's intermediate values, recycled from one exchange to the next.
  template <class T>
  Scratch<T> lend(std::size_t elements) {
    return Scratch<T>(scratch_, elements);
  }

 protected:
  virtual void post(Send& send) = 0;
  virtual void post(Receive& receive) = 0;
  virtual void withdraw(Send& send) = 0;
  virtual void withdraw(Receive& receive) = 0;

  void finish(Send& send, std::exception_ptr error = nullptr) {
    if (timeline_.on() && !error) note(Timeline::Kind::send, send, send.size_bytes());
    end(send, std::move(error));
  }
  void finish(Receive& receive, std::exception_ptr error = nullptr) {
    if (timeline_.on() && !error) note(Timeline::Kind::receive, receive, receive.landed_bytes());
    end(receive, std::move(error));
  }

  Ledger& books() { return ledger_; }
  void note_carrier(Carrier carrier) { carrier_ = carrier; }

  // For the transport: what it has learned of a peer. It then fails all operations that it holds
  // and that have a lost cause.
  void note_left(int peer) { gone_[peer] = {Presence::left, "it has left"}; }
  void note_loss(int peer, Presence how, const std::string& why) {
    if (!losses_are_contained_ && !culprit_) culprit_ = peer;
    gone_[peer] = {how, why};
    losses_.ring();
    fail_own();
  }
  // Holds this rank to the vote, given whom it can still reach.
  void count_votes(std::span<const Presence> everybody);

  Presence presence(int peer) const {
    const auto found = gone_.find(peer);
    return found == gone_.end() ? Presence::here : found->second.presence;
  }
  // Whether nothing can go to or come from that rank any more.
  bool is_lost_cause(int peer) const {
    return cut_off_ || culprit_ || presence(peer) != Presence::here;
  }
  // Why an operation cannot be any more; nullptr if it can.
  std::exception_ptr lost_cause(const Operation& operation) const;
  // On whose account nothing goes on any more, unless losses are contained.
  std::optional<int> culprit() const { return culprit_; }
  bool is_cut_off() const { return cut_off_ != nullptr; }
  bool losses_are_contained() const { return losses_are_contained_; }

 private:
  friend class Send;
  friend class Receive;

  void end(Operation& operation, std::exception_ptr error) {
    operation.unlink();
    operation.done_ = true;
    operation.error_ = std::move(error);
    if (operation.coroutine) loop_.ready(operation);
  }
  void note(Timeline::Kind kind, const Operation& operation, std::size_t bytes) {
    timeline_.add({kind, operation.channel_.operation, operation.begun_, loop_.now(),
                   operation.peer_, bytes});
  }

  void begin(Send& send) {
    send.number_ = ++posted_;
    if (timeline_.on()) send.begun_ = loop_.now();
    if (send.peer() != rank_) return post(send);
    if (auto error = lost_cause(send)) return finish(send, error);
    own_sends_.push_back(send);
    pass_to_self(send.channel().id);
  }
  void begin(Receive& receive) {
    receive.number_ = ++posted_;
    if (receive.peer() != rank_) return post(receive);
    if (auto error = lost_cause(receive)) return finish(receive, error);
    own_receives_.push_back(receive);
    pass_to_self(receive.channel().id);
  }
  template <class AnyOperation>
  void cancel(AnyOperation& operation) {
    operation.peer() != rank_ ? withdraw(operation) : operation.unlink();
  }
  void pass_to_self(std::uint32_t channel);
  void fail_own() {
    fail_lost(own_sends_);
    fail_lost(own_receives_);
  }
  template <class AnyOperation>
  void fail_lost(List<AnyOperation>& operations) {
    while (AnyOperation* operation =
               operations.find([this](const Operation& each) { return lost_cause(each); })) {
      finish(*operation, lost_cause(*operation));
    }
  }

  struct Gone {
    Presence presence;
    std::string why;
  };

  Loop& loop_;
  int rank_;
  int size_;
  Carrier carrier_ = Carrier::network;
  std::uint64_t posted_ = 0;
  Ledger ledger_;
  Timeline timeline_;
  ScratchPool scratch_;
  std::list<std::vector<int>> kept_ranks_;
  bool losses_are_contained_ = false;
  std::vector<int> voters_;  // none: everybody
  std::map<int, Gone> gone_;
  std::optional<int> culprit_;
  std::exception_ptr cut_off_;
  Bell losses_;
  List<Send> own_sends_;
  List<Receive> own_receives_;
};

inline std::exception_ptr Comm::lost_cause(const Operation& operation) const {
  if (cut_off_) return cut_off_;
  const int lost = culprit_.value_or(operation.peer());
  const auto gone = gone_.find(lost);
  if (gone == gone_.end()) return nullptr;
  return std::make_exception_ptr(
      PeerLost(lost, fmt::format("rank {} was lost in {} ({})", lost, operation.channel().operation,
                                 gone->second.why)));
}

inline void Comm::count_votes(std::span<const Presence> everybody) {
  std::vector<int> voters = voters_;
  if (voters.empty()) {
    voters.resize(static_cast<std::size_t>(size_));
    std::iota(voters.begin(), voters.end(), 0);
  }
  if (cut_off_ || std::ranges::find(voters, rank_) == voters.end()) return;
  std::vector<Presence> votes;
  std::vector<int> silent;
  for (int voter : voters) {
    votes.push_back(everybody[static_cast<std::size_t>(voter)]);
    if (votes.back() == Presence::silent) silent.push_back(voter);
  }
  if (may_go_on(votes)) return;
  cut_off_ = std::make_exception_ptr(
      CutOff(fmt::format("cut off from rank {}; as these may go on without it, it stops",
                         fmt::join(silent, ", ")),
             "see to its network"));
  fail_own();
}

// Hands the first message that this rank has sent itself on a channel to whoever waits for it.
inline void Comm::pass_to_self(std::uint32_t channel) {
  const auto on_channel = [channel](const Operation& each) { return each.channel_.id == channel; };
  Send* send = own_sends_.find(on_channel);
  Receive* receive = own_receives_.find(on_channel);
  if (send == nullptr || receive == nullptr || !receive->begin(send->size_bytes())) return;
  receive->take(send->head);
  receive->take(send->bytes);
  finish(*send);
  finish(*receive);
}

inline Send::Send(Comm& comm, int peer, Channel channel, ConstBytes data, ConstBytes h)
    : Operation(comm, peer, channel), head(h), bytes(data) {
  STARLING_CHECK(head.size() <= kMaxHeadBytes, "a head of {} bytes is none", head.size());
  comm.begin(*this);
}
inline Send::~Send() {
  if (!done_) comm_.cancel(*this);
}

inline Receive::Receive(Comm& comm, int peer, Channel channel, Bytes data, Bytes h)
    : Operation(comm, peer, channel), head(h), bytes(data), most_bytes_(data.size()) {
  comm.begin(*this);
}
inline Receive::Receive(Comm& comm, int peer, Channel channel, std::size_t most, Lender& lender,
                        Bytes h)
    : Operation(comm, peer, channel), head(h), most_bytes_(most), lender_(&lender) {
  comm.begin(*this);
}
inline Receive::~Receive() {
  if (!done_) comm_.cancel(*this);
}

inline void Receive::ask_again() {
  if (!std::exchange(declined, false)) return;
  unlink();
  comm_.begin(*this);
}

inline bool Receive::begin(std::uint64_t message_bytes) {
  const std::size_t least = head.size() + (lender_ == nullptr ? most_bytes_ : 0);
  if (message_bytes < least || message_bytes > head.size() + most_bytes_) {
    throw Error(fmt::format("rank {} sent {} bytes in {} where {} were {}", peer_, message_bytes,
                            channel_.operation, head.size() + most_bytes_,
                            lender_ == nullptr ? "expected" : "the most"),
                "all workers must run the same program with the same model and settings");
  }
  if (lender_ != nullptr) {
    const std::optional<Bytes> room = lender_->lend(message_bytes - head.size());
    declined = !room;
    if (declined) return false;
    bytes = *room;
  }
  if (comm_.timeline().on()) begun_ = comm_.loop().now();
  return true;
}

inline std::array<Bytes, 2> Receive::next(std::size_t most_bytes) const {
  const std::size_t of_head = std::min(landed_bytes_, head.size());
  const Bytes first = head.subspan(of_head, std::min(most_bytes, head.size() - of_head));
  return {first, bytes.subspan(landed_bytes_ - of_head, most_bytes - first.size())};
}

inline void Receive::take(ConstBytes from) {
  for (const Bytes place : next(from.size())) {
    std::copy_n(from.begin(), place.size(), place.begin());
    from = from.subspan(place.size());
    landed(place.size());
  }
}

}  // namespace starling
