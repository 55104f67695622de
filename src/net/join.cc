#include "net/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <charconv>
#include <list>

#include "base/error.h"
#include "base/log.h"
#include "net/handshake.h"
#include "net/socket_io.h"
#include "runtime/race.h"

namespace starling {

using asio::ip::tcp;

namespace {

constexpr Time kHandshakePatience = std::chrono::seconds(5);
constexpr std::size_t kMaxGuests = 64;  // who knocks while so many are being examined has to wait

struct RosterEntry {
  std::array<unsigned char, 16> address{};  // IPv6, or IPv4 mapped into it
  std::uint32_t port = 0;
};

RosterEntry entry(const asio::ip::address& address, std::uint32_t port) {
  const auto v6 = address.is_v6() ? address.to_v6()
                                  : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4());
  return {v6.to_bytes(), port};
}

tcp::endpoint endpoint(const RosterEntry& entry) {
  const asio::ip::address_v6 v6(entry.address);
  const auto port = static_cast<std::uint16_t>(entry.port);
  if (v6.is_v4_mapped()) return {asio::ip::make_address_v4(asio::ip::v4_mapped, v6), port};
  return {v6, port};
}

tcp::endpoint resolve(TcpLoop& loop, const std::string& rendezvous) {
  const std::size_t colon = rendezvous.rfind(':');
  if (colon == std::string::npos) {
    throw Error(fmt::format("the rendezvous '{}' has no port", rendezvous),
                "write it like 10.0.0.1:29400");
  }
  tcp::resolver resolver(loop.io());
  asio::error_code error;
  const auto found =
      resolver.resolve(rendezvous.substr(0, colon), rendezvous.substr(colon + 1), error);
  if (error || found.empty()) {
    throw Error(
        fmt::format("the rendezvous '{}' cannot be found ({})", rendezvous, error.message()));
  }
  return found.begin()->endpoint();
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

tcp::acceptor own_listener(TcpLoop& loop, const Job& job) {
  if (job.rank > 0) {
    // Reachable from where the others are: on this machine only, if the rendezvous is on loopback.
    const tcp::endpoint rendezvous = resolve(loop, job.rendezvous);
    return listen_at(loop, rendezvous.address().is_loopback()
                               ? tcp::endpoint(rendezvous.address(), 0)
                               : tcp::endpoint(rendezvous.protocol(), 0));
  }
  if (job.listen_fd >= 0) return tcp::acceptor(loop.io(), tcp::v4(), job.listen_fd);
  const tcp::endpoint rendezvous = resolve(loop, job.rendezvous);
  return listen_at(loop, rendezvous.address().is_loopback()
                             ? rendezvous
                             : tcp::endpoint(rendezvous.protocol(), rendezvous.port()));
}

}  // namespace

// The listener: examines whoever calls, several at a time, and keeps those who belong here.
class Door {
 public:
  Door(TcpLoop& loop, Job job)
      : loop_(loop),
        job_(std::move(job)),
        acceptor_(own_listener(loop, job_)),
        guests_(static_cast<std::size_t>(job_.size)),
        welcoming_(welcome_guests()) {}

  struct Guest {
    tcp::socket socket;
    Hello hello;
  };

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  // Waits until the ranks [first, size) have come.
  Task<> until_here(int first) {
    const auto here = [](const std::optional<Guest>& guest) { return guest.has_value(); };
    while (!std::all_of(guests_.begin() + first, guests_.end(), here)) {
      co_await sleep_until(loop_, loop_.now() + std::chrono::milliseconds(1));
    }
  }

  Guest& guest(int rank) { return *guests_[static_cast<std::size_t>(rank)]; }

  bool is_here(int rank) const { return guests_[static_cast<std::size_t>(rank)].has_value(); }

 private:
  Task<> welcome_guests() {
    while (true) {
      tcp::socket socket = co_await accept(loop_, acceptor_);
      examinations_.remove_if([](const Running& examination) { return examination.done(); });
      while (examinations_.size() >= kMaxGuests) {
        co_await sleep_until(loop_, loop_.now() + std::chrono::milliseconds(10));
        examinations_.remove_if([](const Running& examination) { return examination.done(); });
      }
      examinations_.emplace_back(examine_guest(std::move(socket)));
    }
  }

  Task<> examine_guest(tcp::socket socket) {
    std::string from = "somebody";
    try {
      from = fmt::format("{}", socket.remote_endpoint().address().to_string());
      Hello hello;
      co_await within(loop_, loop_.now() + kHandshakePatience, "its handshake",
                      store_hello(socket, hello));
      std::optional<Guest>& place = guests_[hello.rank];
      if (place) throw Error(fmt::format("rank {} is here already", hello.rank));
      place.emplace(Guest{std::move(socket), hello});
    } catch (const std::exception& error) {
      spdlog::warn("refused a connection from {}: {}", from, error.what());
      asio::error_code ignored;
      socket.close(ignored);
    }
  }

  Task<> store_hello(tcp::socket& socket, Hello& hello) {
    hello = co_await examine(loop_, socket, job_);
  }

  TcpLoop& loop_;
  Job job_;
  tcp::acceptor acceptor_;
  std::vector<std::optional<Guest>> guests_;
  std::list<Running> examinations_;
  Running welcoming_;
};

Membership::Membership(std::unique_ptr<Door> door, std::unique_ptr<TcpComm> comm)
    : door_(std::move(door)), comm_(std::move(comm)) {}
Membership::Membership(Membership&&) noexcept = default;
Membership::~Membership() = default;
std::uint16_t Membership::port() const { return door_ ? door_->port() : std::uint16_t{0}; }

namespace {

Task<> gather_links(TcpLoop& loop, const Job& job, Door& door,
                    std::vector<std::optional<TcpComm::Peer>>& peers) {
  std::vector<RosterEntry> roster(static_cast<std::size_t>(job.size));
  const std::uint64_t roster_bytes = roster.size() * sizeof(RosterEntry);
  const Bytes roster_memory = std::as_writable_bytes(std::span(roster));
  const auto peer = [&](int rank) -> std::optional<TcpComm::Peer>& {
    return peers[static_cast<std::size_t>(rank)];
  };

  if (job.rank == 0) {
    co_await door.until_here(1);
    for (int rank = 1; rank < job.size; ++rank) {
      Door::Guest& guest = door.guest(rank);
      roster[static_cast<std::size_t>(rank)] =
          entry(guest.socket.remote_endpoint().address(), guest.hello.listen_port);
    }
    for (int rank = 1; rank < job.size; ++rank) {
      Door::Guest& guest = door.guest(rank);
      co_await write_all(loop, guest.socket, roster_memory);
      peer(rank).emplace(
          TcpComm::Peer{std::move(guest.socket), endpoint(roster[static_cast<std::size_t>(rank)]),
                        kListenerHandshakeBytes + roster_bytes, kCallerHandshakeBytes});
    }
    co_return;
  }

  for (int rank = 0; rank < job.rank; ++rank) {
    const tcp::endpoint where = rank == 0 ? resolve(loop, job.rendezvous)
                                          : endpoint(roster[static_cast<std::size_t>(rank)]);
    tcp::socket socket = co_await connect(loop, where);
    co_await introduce(loop, socket, job, rank, door.port());
    if (rank == 0) co_await read_exactly(loop, socket, roster_memory);
    peer(rank).emplace(TcpComm::Peer{std::move(socket), where, kCallerHandshakeBytes,
                                     kListenerHandshakeBytes + (rank == 0 ? roster_bytes : 0)});
  }
  co_await door.until_here(job.rank + 1);
  for (int rank = job.rank + 1; rank < job.size; ++rank) {
    peer(rank).emplace(TcpComm::Peer{std::move(door.guest(rank).socket),
                                     endpoint(roster[static_cast<std::size_t>(rank)]),
                                     kListenerHandshakeBytes, kCallerHandshakeBytes});
  }
}

}  // namespace

Task<Membership> join_task(TcpLoop& loop, Job job) {
  std::vector<std::optional<TcpComm::Peer>> peers(static_cast<std::size_t>(job.size));
  std::unique_ptr<Door> door;
  if (job.size > 1) {
    door = std::make_unique<Door>(loop, job);
    try {
      co_await within(loop, loop.now() + job.timeout, "joining the job",
                      gather_links(loop, job, *door, peers));
    } catch (const DeadlineExceeded&) {
      std::vector<int> missing;
      for (int rank = 0; rank < job.size; ++rank) {
        const bool here =
            rank == job.rank || peers[static_cast<std::size_t>(rank)] || door->is_here(rank);
        if (!here) missing.push_back(rank);
      }
      throw Error(
          fmt::format("waited {} s for rank {}", job.timeout.count(), fmt::join(missing, ", ")),
          "see that every worker was started and can reach " + job.rendezvous);
    }
  }
  auto comm = std::make_unique<TcpComm>(loop, job.rank, std::move(peers));
  co_return Membership(std::move(door), std::move(comm));
}

Membership join(TcpLoop& loop, const Job& job) { return loop.run(join_task(loop, job)); }

tcp::acceptor listen_on_loopback(TcpLoop& loop) {
  return listen_at(loop, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
}

}  // namespace starling
