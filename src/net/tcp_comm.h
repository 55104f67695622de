// Comm over TCP: one connection to every other rank.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/connection.h"
#include "net/tcp_loop.h"
#include "runtime/comm.h"

namespace starling {

class TcpComm : public Comm {
 public:
  // A socket whose other end has proved to be that rank, with the bytes that took.
  struct Peer {
    asio::ip::tcp::socket socket;
    std::uint64_t handshake_sent_bytes;
    std::uint64_t handshake_received_bytes;
  };

  // peers[r] leads to rank r; our own place is empty.
  TcpComm(TcpLoop& loop, int rank, std::vector<std::optional<Peer>> peers);
  ~TcpComm() override;

  int socket_fd(int peer) { return connection(peer).socket_fd(); }
  // The kernel's own count of that connection, to check the ledger against.
  TcpInfo kernel_info(int peer) { return connection(peer).kernel_info(); }

 private:
  struct Lost {
    int rank;
    std::string why;
  };

  void post(Send& send) override;
  void post(Receive& receive) override;
  void withdraw(Send& send) override { connection(send.peer()).withdraw(send); }
  void withdraw(Receive& receive) override { connection(receive.peer()).withdraw(receive); }

  Connection& connection(int peer);
  void left(int peer);
  void suspect(int peer, const std::string& why);
  Task<> judge();
  void lose(int peer, const std::string& why);
  void fail_all(int peer, const Lost& lost);
  std::exception_ptr lost_cause(const Operation& operation) const override;
  Task<> look_for_ends();

  std::vector<std::shared_ptr<Connection>> connections_;
  std::optional<Lost> suspect_;
  std::optional<Lost> lost_;
  std::map<int, std::string> contained_;  // who was lost while losses were contained, and why
  std::optional<Running> watch_;
  std::optional<Running> judgement_;
};

}  // namespace starling
