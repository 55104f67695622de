#include "net/tcp_host.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <memory>
#include <system_error>

#include "base/error.h"
#include "net/own_address.h"

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

Address address_of(const tcp::endpoint& endpoint) {
  const asio::ip::address& address = endpoint.address();
  const auto v6 = address.is_v6() ? address.to_v6()
                                  : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4());
  return {v6.to_bytes(), endpoint.port()};
}

tcp::endpoint endpoint_of(const Address& address) {
  const asio::ip::address_v6 v6(address.ip);
  const auto port = static_cast<std::uint16_t>(address.port);
  if (v6.is_v4_mapped()) return {asio::ip::make_address_v4(asio::ip::v4_mapped, v6), port};
  return {v6, port};
}

tcp::acceptor listen_at(TcpLoop& loop, const tcp::endpoint& where) {
  tcp::acceptor acceptor(loop.io());
  acceptor.open(where.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  asio::error_code error;
  acceptor.bind(where, error);
  if (error) {
    throw Error(fmt::format("cannot listen at {}:{} ({})", where.address().to_string(),
                            where.port(), error.message()),
                "choose another rendezvous port");
  }
  acceptor.listen();
  return acceptor;
}

class TcpListener : public Listener {
 public:
  TcpListener(TcpLoop& loop, tcp::acceptor acceptor, std::shared_ptr<std::set<int>> listening)
      : loop_(loop), acceptor_(std::move(acceptor)), listening_(std::move(listening)) {
    acceptor_.non_blocking(true);
    listening_->insert(acceptor_.native_handle());
  }
  ~TcpListener() { listening_->erase(acceptor_.native_handle()); }

  std::uint32_t port() const override { return acceptor_.local_endpoint().port(); }

  // One caller a turn of the loop, so that a crowd cannot keep it from anything else.
  Task<Caller> accept() override {
    while (true) {
      Readiness called(loop_, acceptor_, asio::socket_base::wait_read);
      co_await called;
      tcp::socket socket(loop_.io());
      tcp::endpoint from;
      asio::error_code error;
      acceptor_.accept(socket, from, error);
      if (!error) {
        co_return Caller{std::make_unique<TcpLink>(std::move(socket)), address_of(from)};
      }
      // Some callers have gone again by now. Without descriptors however they stay in the queue, and
      // to look again at once would be to spin.
      if (error != asio::error::would_block && error != asio::error::connection_aborted) {
        co_await sleep_until(loop_, loop_.now() + std::chrono::milliseconds(100));
      }
    }
  }

 private:
  TcpLoop& loop_;
  tcp::acceptor acceptor_;
  std::shared_ptr<std::set<int>> listening_;  // of the host, which may be gone before us
};

// Without the brackets in which an IPv6 address may stand before a port.
std::string without_brackets(const std::string& host) {
  const bool has_them = host.starts_with('[') && host.ends_with(']');
  return has_them ? host.substr(1, host.size() - 2) : host;
}

bool is_machines_name(const std::string& host) {
  asio::error_code is_no_address;
  asio::ip::make_address(host, is_no_address);
  return is_no_address && host != "localhost";
}

// All who meet at 127.0.1.1 listen there, while the kernel has whom it calls come from 127.0.0.1.
std::optional<asio::ip::address> source_on_loopback(const asio::ip::address& to) {
  if (to.is_v6() || to.to_v4() == asio::ip::address_v4::loopback()) return std::nullopt;
  return to;
}

// Calls once; returns 0 or the error number.
Task<int> connect(TcpLoop& loop, tcp::socket& socket, tcp::endpoint to,
                  std::optional<asio::ip::address> from) {
  socket.open(to.protocol());
  socket.non_blocking(true);
  if (to.address().is_loopback()) from = source_on_loopback(to.address());
  if (from) {
    asio::error_code error;
    socket.bind({*from, 0}, error);
    if (error) co_return error.value();
  }
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

}  // namespace

TcpHost::TcpHost(TcpLoop& loop, const std::string& network) : loop_(loop), network_(network) {
  if (!network.empty()) own_ = own_address_on(network);
}

std::string TcpHost::describe_way(const Address& to) {
  const tcp::endpoint there = endpoint_of(to);
  const std::string from = own_ ? own_->to_string() : own_address_towards(there.address());
  return fmt::format("{}:{} from {}", there.address().to_string(), there.port(),
                     from.empty() ? "nowhere, as no network leads there" : from);
}

Address TcpHost::find(const std::string& name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string::npos) {
    throw Error(fmt::format("the rendezvous '{}' has no port", name),
                "write it like 10.0.0.1:29400");
  }
  const std::string host = without_brackets(name.substr(0, colon));
  tcp::resolver resolver(loop_.io());
  asio::error_code error;
  const auto found = resolver.resolve(host, name.substr(colon + 1), error);
  if (error || found.empty()) {
    throw Error(fmt::format("the rendezvous '{}' cannot be found ({})", name, error.message()));
  }
  for (const auto& each : found) {
    if (is_in_subnet(each.endpoint().address(), network_)) return address_of(each.endpoint());
  }
  const tcp::endpoint first = found.begin()->endpoint();
  // Some machines know their own name by a loopback address, where no other can call.
  const auto outward = first.address().is_loopback() && is_machines_name(host)
                           ? own_outward_address()
                           : std::nullopt;
  return address_of(outward ? tcp::endpoint(own_.value_or(*outward), first.port()) : first);
}

// Who is found on loopback is called by this machine only, so nobody else needs to reach us.
std::unique_ptr<Listener> TcpHost::listen(const Address& place, std::uint32_t port) {
  tcp::endpoint where = endpoint_of(place);
  where.port(static_cast<std::uint16_t>(port));
  if (!where.address().is_loopback()) {
    // Rank 0 is called where it was said to be.
    if (own_ && port != 0 && *own_ != where.address()) {
      throw Error(fmt::format("all are to meet at {}, and on the network {} this machine is {}",
                              where.address().to_string(), network_, own_->to_string()),
                  fmt::format("give --rendezvous {}:{}", own_->to_string(), port));
    }
    where =
        own_ ? tcp::endpoint(*own_, where.port()) : tcp::endpoint(where.protocol(), where.port());
  }
  return std::make_unique<TcpListener>(loop_, listen_at(loop_, where), listening_);
}

std::unique_ptr<Listener> TcpHost::adopt(int listening_fd) {
  return std::make_unique<TcpListener>(loop_, tcp::acceptor(loop_.io(), tcp::v4(), listening_fd),
                                       listening_);
}

Task<Host::Answer> TcpHost::call(Address to) {
  tcp::socket socket(loop_.io());
  Task<int> calling = connect(loop_, socket, endpoint_of(to), own_);
  const int error = co_await calling;
  if (error == 0) co_return Answer{std::make_unique<TcpLink>(std::move(socket))};
  co_return Answer{nullptr, error == ECONNREFUSED, std::generic_category().message(error)};
}

void TcpHost::draw(Bytes bytes) {
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error("the system has no randomness to offer");
  }
}

tcp::acceptor listen_on_loopback(TcpLoop& loop) {
  return listen_at(loop, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
}

tcp::acceptor listen_anywhere(TcpLoop& loop) {
  return listen_at(loop, tcp::endpoint(tcp::v4(), 0));
}

}  // namespace starling
