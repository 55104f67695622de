#include "net/socket_io.h"

#include <asio/buffer.hpp>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace starling {

namespace {

using asio::ip::tcp;

// Waits until a socket or acceptor is ready.
template <class Socket>
class Readiness : public Waiter {
 public:
  Readiness(TcpLoop& loop, Socket& socket, asio::socket_base::wait_type what)
      : loop_(loop), socket_(socket), what_(what) {}
  ~Readiness() {
    if (alive_) *alive_ = nullptr;
  }

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) {
    coroutine = awaiter;
    alive_ = std::make_shared<Readiness*>(this);
    socket_.async_wait(what_, [alive = alive_, &loop = loop_](const asio::error_code& error) {
      if (*alive == nullptr) return;
      (*alive)->error_ = error;
      loop.ready(**alive);
    });
  }
  void await_resume() const {
    if (error_) throw Error(error_.message());
  }

 private:
  TcpLoop& loop_;
  Socket& socket_;
  asio::socket_base::wait_type what_;
  std::shared_ptr<Readiness*> alive_;  // what the handler looks at, which may outlive us
  asio::error_code error_;
};

}  // namespace

Task<> read_exactly(TcpLoop& loop, tcp::socket& socket, Bytes bytes) {
  socket.non_blocking(true);
  while (!bytes.empty()) {
    asio::error_code error;
    const std::size_t got = socket.read_some(asio::buffer(bytes.data(), bytes.size()), error);
    if (error == asio::error::would_block) {
      Readiness readable(loop, socket, asio::socket_base::wait_read);
      co_await readable;
    } else if (error) {
      throw HungUp(error == asio::error::eof ? "it hung up" : error.message());
    }
    bytes = bytes.subspan(got);
  }
}

Task<> write_all(TcpLoop& loop, tcp::socket& socket, ConstBytes bytes) {
  socket.non_blocking(true);
  while (!bytes.empty()) {
    asio::error_code error;
    const std::size_t put = socket.write_some(asio::buffer(bytes.data(), bytes.size()), error);
    if (error == asio::error::would_block) {
      Readiness writable(loop, socket, asio::socket_base::wait_write);
      co_await writable;
    } else if (error) {
      throw HungUp(error.message());
    }
    bytes = bytes.subspan(put);
  }
}

// One caller a turn of the loop, so that a crowd cannot keep it from anything else.
Task<tcp::socket> accept(TcpLoop& loop, tcp::acceptor& acceptor) {
  acceptor.non_blocking(true);
  while (true) {
    Readiness called(loop, acceptor, asio::socket_base::wait_read);
    co_await called;
    tcp::socket socket(loop.io());
    asio::error_code error;
    acceptor.accept(socket, error);
    if (!error) co_return std::move(socket);
    // Some callers have gone again by now. Without descriptors however they stay in the queue, and
    // to look again at once would be to spin.
    if (error != asio::error::would_block && error != asio::error::connection_aborted) {
      co_await sleep_until(loop, loop.now() + std::chrono::milliseconds(100));
    }
  }
}

Task<int> try_to_connect(TcpLoop& loop, tcp::socket& socket, tcp::endpoint to) {
  socket.open(to.protocol());
  socket.non_blocking(true);
  // Asio's own connect() would wait for the answer in poll(), and with it the whole loop.
  if (::connect(socket.native_handle(), to.data(), static_cast<socklen_t>(to.size())) == 0) {
    co_return 0;
  }
  if (errno != EINPROGRESS) co_return errno;
  Readiness answered(loop, socket, asio::socket_base::wait_write);
  co_await answered;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &error, &length);
  // On loopback a call to a port that nobody listens on can come out at itself.
  if (error == 0 && socket.local_endpoint() == to) error = ECONNREFUSED;
  co_return error;
}

Task<tcp::socket> connect(TcpLoop& loop, tcp::endpoint to) {
  tcp::socket socket(loop.io());
  Task<int> calling = try_to_connect(loop, socket, to);
  const int error = co_await calling;
  if (error != 0) throw HungUp(std::generic_category().message(error));
  co_return std::move(socket);
}

Task<tcp::socket> connect_patiently(TcpLoop& loop, tcp::endpoint to) {
  while (true) {
    tcp::socket socket(loop.io());
    Task<int> calling = try_to_connect(loop, socket, to);
    const int error = co_await calling;
    if (error == 0) co_return std::move(socket);
    co_await sleep_until(loop, loop.now() + std::chrono::milliseconds(50));
  }
}

}  // namespace starling
