// Mesh: Comm over links, one to every other rank.
//
// How a rank learns that another is gone. A process that ends closes its connections; a machine that
// vanishes does not, and one whose link is cut cannot know which side of the cut it is on:
//
//   A. A connection that breaks, or on which nothing has been answered for a while, makes its peer a
//      suspect. A peer that is only busy or stopped still answers: its kernel does.
//   B. We knock at everybody's door, the port that each rank listens on for as long as it runs. Who
//      refuses is dead; who opens is here; the rest is silent.
//   C. Who is among most of those that are not dead (runtime/majority.h) takes the suspects for lost.
//      Who is not is cut off itself: it is not for it to say who was lost.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/process_comm.h"
#include "runtime/host.h"

namespace starling {

class Mesh : public ProcessComm {
 public:
  // A link whose other end has proved to be that rank, with the bytes that took.
  struct Peer {
    std::unique_ptr<Link> link;
    Address door;  // where the rank listens
    std::uint64_t handshake_sent_bytes;
    std::uint64_t handshake_received_bytes;
    FrameHeader first = {};  // what was read of its first frame before there was a mesh
    std::size_t first_bytes = 0;
  };

  // peers[r] leads to rank r; our own place is empty.
  Mesh(Host& host, int rank, std::vector<std::optional<Peer>> peers);
  // Says goodbye; or, if an exception ends the worker, that it has failed.
  ~Mesh() override;

  // Where another rank listens.
  const Address& door(int peer) const { return doors_[static_cast<std::size_t>(peer)]; }
  Link& link(int peer) { return connection(peer).link(); }
  std::vector<int> awaited(std::uint32_t channel) override;
  std::vector<int> descriptors() override;

 private:
  void post(Send& send) override;
  void post(Receive& receive) override;
  void withdraw(Send& send) override { connection(send.peer()).withdraw(send); }
  void withdraw(Receive& receive) override { connection(receive.peer()).withdraw(receive); }

  void each_unfinished(const std::function<void(const Operation&, bool sends)>& look) override;

  Connection& connection(int peer);
  void broken(int peer, int culprit, const std::string& why);
  void suspect(int peer, const std::string& why);
  Task<> judge();
  void give_verdict(std::span<const Presence> found);
  void lose(int peer, Presence how, const std::string& why);
  void fail_lost_causes();
  // What knocking at all doors tells of everybody, ourselves included.
  Task<> look_around(std::vector<Presence>& found);
  Task<> knock(int peer, Presence& found);
  Task<> call(int peer, Presence& found);
  Task<> watch();

  Host& host_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Address> doors_;
  std::map<int, std::string> suspects_;  // and why
  std::optional<int> first_suspect_;
  std::optional<Running> watch_;
  std::optional<Running> judgement_;
};

}  // namespace starling
