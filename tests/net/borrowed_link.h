// A link over a socket that stays the test's own: for handshakes of those who then go on by hand.
#pragma once

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>

#include "runtime/link.h"

namespace starling {

class BorrowedLink : public Link {
 public:
  using Link::read_some;
  using Link::write_some;

  explicit BorrowedLink(asio::ip::tcp::socket& socket) : socket_(socket) {}
  ~BorrowedLink() override {
    close();
    asio::error_code ignored;
    socket_.non_blocking(false, ignored);
  }

  Transfer write_some(const Parts& parts, bool) override {
    asio::error_code error;
    socket_.non_blocking(true);
    const std::size_t bytes =
        socket_.write_some(asio::buffer(parts[0].data(), parts[0].size()), error);
    return outcome(bytes, error);
  }
  Transfer read_some(const Places& places) override {
    asio::error_code error;
    socket_.non_blocking(true);
    const std::size_t bytes =
        socket_.read_some(asio::buffer(places[0].data(), places[0].size()), error);
    return outcome(bytes, error);
  }
  void when_readable(Callback callback) override {
    wait(asio::socket_base::wait_read, std::move(callback));
  }
  void when_writable(Callback callback) override {
    wait(asio::socket_base::wait_write, std::move(callback));
  }
  void close() override { *waiting_ = nullptr; }
  Signs signs_of_life() override { return {true, 0, false}; }

 private:
  static Transfer outcome(std::size_t bytes, const asio::error_code& error) {
    if (!error) return {Status::moved, bytes};
    return {error == asio::error::would_block ? Status::not_now : Status::broken, 0, error};
  }
  void wait(asio::socket_base::wait_type what, Callback callback) {
    *waiting_ = std::move(callback);
    if (!*waiting_) return;
    socket_.async_wait(what, [waiting = waiting_](const asio::error_code&) {
      if (const Callback ready = std::exchange(*waiting, nullptr)) ready();
    });
  }

  asio::ip::tcp::socket& socket_;
  std::shared_ptr<Callback> waiting_ = std::make_shared<Callback>();
};

}  // namespace starling
