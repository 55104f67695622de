// One rank's end of the modelled network.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm.h"
#include "sim/stream.h"

namespace starling {

class SimComm : public Comm {
 public:
  SimComm(Cluster& cluster, Loop& loop, int rank, int size)
      : Comm(loop, rank, size), cluster_(cluster), streams_(static_cast<std::size_t>(size)) {}

  // The connection from that rank to this one.
  Stream& stream_from(int peer);

  void account(int peer, Direction direction, Purpose purpose, std::size_t payload_bytes);
  using Comm::finish;
  using Comm::lost_cause;

  void lose(int peer);
  void die() { alive_ = false; }
  bool alive() const { return alive_; }

 private:
  void post(Send& send) override;
  void post(Receive& receive) override { stream_from(receive.peer()).post(receive); }
  void withdraw(Send& send) override { stream_to(send.peer()).withdraw(send); }
  void withdraw(Receive& receive) override { stream_from(receive.peer()).withdraw(receive); }
  Stream& stream_to(int peer);
  void fail_lost_causes();

  Cluster& cluster_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by the rank that they come from
  bool alive_ = true;
};

}  // namespace starling
