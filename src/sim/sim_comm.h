// One rank's end of the modelled network.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "runtime/comm.h"
#include "sim/sim_loop.h"

namespace starling {

class Cluster;

class SimComm : public Comm {
 public:
  SimComm(Cluster& cluster, SimLoop& loop, int rank, int size)
      : Comm(loop, rank, size), cluster_(cluster), events_(loop) {}

  struct Message {
    int from;
    Channel channel;
    std::vector<std::byte> payload;
  };

  void account(int peer, Direction direction, Purpose purpose, std::size_t payload_bytes);
  void deliver(Message message);
  void lose(int peer);
  void die() { alive_ = false; }
  bool alive() const { return alive_; }

 private:
  void post(Send& send) override;
  void post(Receive& receive) override;
  void withdraw(Send& send) override;
  void withdraw(Receive& receive) override { receive.unlink(); }
  void land(Receive& receive, const Message& message);

  Cluster& cluster_;
  SimLoop& events_;
  bool alive_ = true;
  std::unordered_map<Send*, SimLoop::EventId> leaving_;  // sends that still occupy our port
  List<Receive> receives_;
  std::deque<Message> unexpected_;
};

}  // namespace starling
