#include "net/tcp_link.h"

#include <netinet/tcp.h>

#include <asio/buffer.hpp>
#include <utility>

#include "net/pooled.h"

namespace starling {

namespace {

template <int kLevel, int kName>
using IntegerOption = asio::detail::socket_option::integer<kLevel, kName>;

// Between two processes of one machine there is no distance to fill. A short queue made exchanges
// of 4 MB and more a fifth to a third faster (docs/performance.md), probably because its bytes are
// still in the cache when they are read.
constexpr int kLoopbackSendBufferBytes = 300'000;

asio::mutable_buffer buffer(Bytes bytes) { return {bytes.data(), bytes.size()}; }
asio::const_buffer buffer(ConstBytes bytes) { return {bytes.data(), bytes.size()}; }

Link::Transfer outcome(std::size_t bytes, const asio::error_code& error) {
  if (!error) return {Link::Status::moved, bytes};
  if (error == asio::error::would_block) return {Link::Status::not_now};
  if (error == asio::error::eof) return {Link::Status::closed};
  return {Link::Status::broken, 0, error};
}

}  // namespace

// A peer that has hung up already is found out by the first transfer, not here.
TcpLink::TcpLink(asio::ip::tcp::socket socket)
    : core_(std::make_shared<Core>(Core{std::move(socket)})) {
  asio::ip::tcp::socket& own = core_->socket;
  asio::error_code ignored;
  own.non_blocking(true, ignored);
  own.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (own.remote_endpoint(ignored).address().is_loopback()) {
    own.set_option(asio::socket_base::send_buffer_size(kLoopbackSendBufferBytes), ignored);
  }
  // A machine that vanishes sends no farewell; on an idle connection the kernel finds out for us.
  // TCP_USER_TIMEOUT would do so on a busy one, but it also fires where the peer is there and only
  // does not read.
  own.set_option(asio::socket_base::keep_alive(true), ignored);
  own.set_option(IntegerOption<IPPROTO_TCP, TCP_KEEPIDLE>(2), ignored);
  own.set_option(IntegerOption<IPPROTO_TCP, TCP_KEEPINTVL>(1), ignored);
  own.set_option(IntegerOption<IPPROTO_TCP, TCP_KEEPCNT>(3), ignored);
}

Link::Transfer TcpLink::write_some(const Parts& parts, bool more_follows) {
  asio::error_code error;
  const std::array<asio::const_buffer, 3> buffers = {buffer(parts[0]), buffer(parts[1]),
                                                     buffer(parts[2])};
  const std::size_t bytes = core_->socket.send(buffers, more_follows ? MSG_MORE : 0, error);
  return outcome(bytes, error);
}

Link::Transfer TcpLink::read_some(const Places& places) {
  asio::error_code error;
  const std::array<asio::mutable_buffer, 3> buffers = {buffer(places[0]), buffer(places[1]),
                                                       buffer(places[2])};
  const std::size_t bytes = core_->socket.read_some(buffers, error);
  return outcome(bytes, error);
}

void TcpLink::when_readable(Callback callback) {
  wait(asio::socket_base::wait_read, &Core::in, std::move(callback));
}

void TcpLink::when_writable(Callback callback) {
  wait(asio::socket_base::wait_write, &Core::out, std::move(callback));
}

void TcpLink::wait(asio::socket_base::wait_type what, Direction Core::*which, Callback callback) {
  Direction& direction = (*core_).*which;
  direction.callback = std::move(callback);
  if (!direction.callback || std::exchange(direction.armed, true)) return;
  core_->socket.async_wait(what, Pooled([core = core_, which](const asio::error_code&) {
                             Direction& ready = (*core).*which;
                             ready.armed = false;
                             const Callback wanted = std::exchange(ready.callback, nullptr);
                             if (wanted) wanted();
                           }));
}

void TcpLink::close() {
  core_->in.callback = core_->out.callback = nullptr;
  if (!core_->socket.is_open()) return;
  asio::error_code ignored;
  core_->socket.shutdown(asio::socket_base::shutdown_send, ignored);
  core_->socket.close(ignored);
}

Link::Signs TcpLink::signs_of_life() {
  const TcpInfo info = kernel_info();
  return {info.established, info.acknowledged_bytes + info.received_bytes, info.awaits_answer};
}

}  // namespace starling
