// Awaiting a socket outside the hot path, for handshakes. Only readiness is awaited, the reading
// and writing are plain non-blocking calls: a cancelled wait leaves no buffer behind that the
// kernel might still write to.
#pragma once

#include <asio/ip/tcp.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "net/tcp_loop.h"
#include "runtime/task.h"

namespace starling {

// The other end has gone, or was never there.
class HungUp : public Error {
 public:
  using Error::Error;
};

Task<> read_exactly(TcpLoop& loop, asio::ip::tcp::socket& socket, Bytes bytes);
Task<> write_all(TcpLoop& loop, asio::ip::tcp::socket& socket, ConstBytes bytes);
Task<asio::ip::tcp::socket> accept(TcpLoop& loop, asio::ip::tcp::acceptor& acceptor);
// Calls once; returns 0 or the error number.
Task<int> try_to_connect(TcpLoop& loop, asio::ip::tcp::socket& socket, asio::ip::tcp::endpoint to);
// Calls once, where somebody is known to listen.
Task<asio::ip::tcp::socket> connect(TcpLoop& loop, asio::ip::tcp::endpoint to);
// Tries again, for as long as it is allowed to run, while nobody listens there yet.
Task<asio::ip::tcp::socket> connect_patiently(TcpLoop& loop, asio::ip::tcp::endpoint to);

}  // namespace starling
