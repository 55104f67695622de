// The machine we are on, as its kernel shows it: TCP, names, and random numbers.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "net/tcp_link.h"
#include "net/tcp_loop.h"
#include "runtime/host.h"

namespace starling {

class TcpHost : public Host {
 public:
  // On a network (net/own_address.h) it calls and is called by its address there; else by the one that
  // leads to whom it calls. Throws Error if this machine is not on it.
  explicit TcpHost(TcpLoop& loop, const std::string& network = "");

  TcpLoop& loop() override { return loop_; }
  Address find(const std::string& name) override;
  std::unique_ptr<Listener> listen(const Address& place, std::uint32_t port) override;
  // Takes over a socket that listens already.
  std::unique_ptr<Listener> adopt(int listening_fd);
  Task<Answer> call(Address to) override;
  std::string describe_way(const Address& to) override;
  void draw(Bytes bytes) override;

  // The sockets that listen.
  std::vector<int> listening() const { return {listening_->begin(), listening_->end()}; }

 private:
  TcpLoop& loop_;
  std::shared_ptr<std::set<int>> listening_ = std::make_shared<std::set<int>>();
  std::string network_;
  std::optional<asio::ip::address> own_;  // on that network
};

// A socket listening on a free loopback port: what the launcher hands to rank 0.
asio::ip::tcp::acceptor listen_on_loopback(TcpLoop& loop);
// One on a free port of all of this machine's addresses.
asio::ip::tcp::acceptor listen_anywhere(TcpLoop& loop);

}  // namespace starling
