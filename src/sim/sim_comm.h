// One rank's end of the modelled network.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/comm.h"
#include "sim/local_loop.h"
#include "sim/stream.h"

namespace starling {

class SimComm : public Comm {
 public:
  SimComm(Cluster& cluster, LocalLoop& loop, int rank, int size)
      : Comm(loop, rank, size), cluster_(cluster), own_loop_(loop) {}

  // The connection from that rank to this one.
  Stream& stream_from(int peer);
  // The same, or nullptr if nothing has passed yet.
  Stream* find_stream_from(int peer) {
    const auto found = streams_.find(peer);
    return found == streams_.end() ? nullptr : found->second.get();
  }

  void account(int peer, Direction direction, Purpose purpose, std::size_t payload_bytes);
  using Comm::culprit;
  using Comm::finish;
  using Comm::is_cut_off;
  using Comm::lost_cause;
  using Comm::presence;

  // What this rank learns of another's end, as Mesh does: a goodbye, or on whose account it gave
  // up, which may be its own.
  void see_end(int peer, std::optional<int> culprit);
  void see_leave(int peer);
  void see_give_up(int peer, int culprit);
  // That another has sent what makes no sense; it is told so.
  void refuse(int peer, const std::string& why);
  // That it cannot reach some others.
  void miss(const std::vector<int>& silent);

  // Its kernel takes what comes, within bounds, and nothing is read.
  void stop() { own_loop_.stop(); }
  void go_on();
  bool is_stopped() const { return own_loop_.is_stopped(); }

  void die() { alive_ = false; }
  bool alive() const { return alive_; }

 private:
  void post(Send& send) override;
  void post(Receive& receive) override { stream_from(receive.peer()).post(receive); }
  void withdraw(Send& send) override { stream_to(send.peer()).withdraw(send); }
  void withdraw(Receive& receive) override { stream_from(receive.peer()).withdraw(receive); }
  Stream& stream_to(int peer);
  void lose(int peer, Presence how, const std::string& why);
  void fail_lost_causes(int first_peer, int last_peer);

  Cluster& cluster_;
  LocalLoop& own_loop_;
  std::set<int> missed_;                                      // while it was stopped
  std::unordered_map<int, std::unique_ptr<Stream>> streams_;  // by the rank that they come from
  bool alive_ = true;
};

}  // namespace starling
