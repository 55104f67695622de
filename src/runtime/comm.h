// Comm: framed messages between ranks, the one interface that every algorithm is written against.
//
// - A message goes to a peer on a channel. Messages of one channel between two ranks arrive in the
// order sent;
//   different channels do not wait for each other.
// - send() and receive() post the operation at once and return it; co_await it when its outcome
// matters.
//   A receive lands in the caller's memory, which must stay until the operation is done or
//   destroyed. A finished send means that its memory may be reused, not that the peer has it.
// - Sizes are agreed beforehand: a message that does not fill its receive exactly breaks the peer's
// connection.
// - Destroying an operation withdraws it. When a peer is lost, every operation fails with PeerLost,
// and so
//   does every later one: nobody waits for a rank that will not come.
#pragma once

#include <cstdint>
#include <exception>
#include <span>

#include "base/bytes.h"
#include "runtime/ledger.h"
#include "runtime/loop.h"
#include "runtime/scratch.h"

namespace starling {

struct Channel {
  std::uint32_t id = 0;
  Purpose purpose = Purpose::control;
  const char* operation = "a message";  // for errors: "rank 2 was lost in <operation>"

  Channel in(const char* name) const { return {id, purpose, name}; }
};

class Comm;

class Operation : public Waiter {
 public:
  int peer() const { return peer_; }
  const Channel& channel() const { return channel_; }
  bool done() const { return done_; }

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
  std::exception_ptr error_;
};

class Send : public Operation {
 public:
  Send(Comm& comm, int peer, Channel channel, ConstBytes bytes);
  ~Send();
  ConstBytes bytes;
};

class Receive : public Operation {
 public:
  Receive(Comm& comm, int peer, Channel channel, Bytes bytes);
  ~Receive();
  Bytes bytes;

  // For the transport: how much of a message has landed here already, if one has begun to.
  bool claimed = false;
  std::size_t landed_bytes = 0;
};

class Comm {
 public:
  Comm(Loop& loop, int rank, int size) : loop_(loop), rank_(rank), size_(size), ledger_(size) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  virtual ~Comm() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Loop& loop() { return loop_; }
  const Ledger& ledger() const { return ledger_; }

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

  void finish(Operation& operation, std::exception_ptr error = nullptr) {
    operation.unlink();
    operation.done_ = true;
    operation.error_ = std::move(error);
    if (operation.coroutine) loop_.ready(operation);
  }

  Ledger& books() { return ledger_; }

 private:
  friend class Send;
  friend class Receive;

  Loop& loop_;
  int rank_;
  int size_;
  Ledger ledger_;
  ScratchPool scratch_;
};

inline Send::Send(Comm& comm, int peer, Channel channel, ConstBytes data)
    : Operation(comm, peer, channel), bytes(data) {
  comm.post(*this);
}
inline Send::~Send() {
  if (!done_) comm_.withdraw(*this);
}
inline Receive::Receive(Comm& comm, int peer, Channel channel, Bytes data)
    : Operation(comm, peer, channel), bytes(data) {
  comm.post(*this);
}
inline Receive::~Receive() {
  if (!done_) comm_.withdraw(*this);
}

}  // namespace starling
