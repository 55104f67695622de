// A TCP connection.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>

#include "net/tcp_info.h"
#include "runtime/link.h"

namespace starling {

class TcpLink : public Link {
 public:
  explicit TcpLink(asio::ip::tcp::socket socket);
  ~TcpLink() override { close(); }

  Transfer write_some(const Parts& parts, bool more_follows) override;
  Transfer read_some(const Places& places) override;
  void when_readable(Callback callback) override;
  void when_writable(Callback callback) override;
  void close() override;
  Signs signs_of_life() override;

  int descriptor() override { return core_->socket.native_handle(); }
  // The kernel's own count, to check the ledger against.
  TcpInfo kernel_info() { return tcp_info_of(descriptor()); }

 private:
  struct Direction {
    Callback callback;
    bool armed = false;
  };
  // What Asio's handlers look at, which may outlive us.
  struct Core {
    asio::ip::tcp::socket socket;
    Direction in = {}, out = {};
  };
  void wait(asio::socket_base::wait_type what, Direction Core::*direction, Callback callback);

  std::shared_ptr<Core> core_;
};

}  // namespace starling
