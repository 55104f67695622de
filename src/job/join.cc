#include "job/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <charconv>
#include <list>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "job/handshake.h"
#include "net/socket_io.h"
#include "runtime/race.h"

namespace starling {

using asio::ip::tcp;

namespace {

constexpr Time kHandshakePatience = std::chrono::seconds(5);
constexpr Time kNewsEvery = std::chrono::milliseconds(250);
constexpr Time kToBeTold = std::chrono::seconds(1);
constexpr std::size_t kMostStrangers = 64;  // that are examined at a time, besides the members

using Peers = std::vector<std::optional<TcpComm::Peer>>;

// What stands in front of the roster.
struct RosterHead {
  static constexpr std::uint32_t kNobody = ~0u;
  std::uint32_t missing = kNobody;  // if somebody is, there is no roster
};

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
        arrivals_(loop),
        welcoming_(welcome_guests()) {}

  struct Guest {
    tcp::socket socket;
    asio::ip::address address;
    Hello hello;
  };

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  bool is_here(int rank) const { return guests_[static_cast<std::size_t>(rank)].has_value(); }
  Guest& guest(int rank) { return *guests_[static_cast<std::size_t>(rank)]; }
  // Rings when another guest has come.
  Bell& arrivals() { return arrivals_; }

  // All are here: from now on every caller is hung up on.
  void shut() {
    is_shut_ = true;
    examinations_.clear();
  }

 private:
  struct Examination {
    Examination(Door& door, tcp::socket caller)
        : socket(std::move(caller)), running(door.examine_guest(*this)) {}
    tcp::socket socket;
    bool said_hello = false;
    Running running;
  };

  Task<> welcome_guests() {
    while (true) {
      Task<tcp::socket> call = accept(loop_, acceptor_);
      tcp::socket socket = co_await call;
      if (is_shut_) continue;
      make_room();
      examinations_.emplace_back(*this, std::move(socket));
    }
  }

  // A member says hello at once. So when there are more callers than members and some strangers,
  // who has been silent for longest goes.
  void make_room() {
    examinations_.remove_if([](const Examination& each) { return each.running.done(); });
    if (examinations_.size() < static_cast<std::size_t>(job_.size) + kMostStrangers) return;
    const auto silent = std::ranges::find(examinations_, false, &Examination::said_hello);
    examinations_.erase(silent == examinations_.end() ? examinations_.begin() : silent);
  }

  Task<> examine_guest(Examination& examination) {
    asio::ip::address from;
    try {
      from = examination.socket.remote_endpoint().address();
      Hello hello;
      co_await within(loop_, loop_.now() + kHandshakePatience, "its handshake",
                      shake_hands(examination, hello));
      std::optional<Guest>& place = guests_[hello.rank];
      if (place) throw Error(fmt::format("rank {} is here already", hello.rank));
      place.emplace(Guest{std::move(examination.socket), from, hello});
      arrivals_.ring();
    } catch (const std::exception& error) {
      // Who says nothing, like one that knocks to see whether we are there, is not worth a line.
      spdlog::log(examination.said_hello ? spdlog::level::warn : spdlog::level::debug,
                  "refused a connection from {}: {}", from.to_string(), error.what());
      asio::error_code ignored;
      examination.socket.close(ignored);
    }
  }

  Task<> shake_hands(Examination& examination, Hello& hello) {
    Task<Hello> first = hear_hello(loop_, examination.socket);
    hello = co_await first;
    examination.said_hello = true;
    co_await examine(loop_, examination.socket, job_, hello);
  }

  TcpLoop& loop_;
  Job job_;
  tcp::acceptor acceptor_;
  std::vector<std::optional<Guest>> guests_;
  Bell arrivals_;
  bool is_shut_ = false;
  std::list<Examination> examinations_;
  Running welcoming_;
};

Membership::Membership(std::unique_ptr<Door> door, std::unique_ptr<TcpComm> comm)
    : door_(std::move(door)), comm_(std::move(comm)) {}
Membership::Membership(Membership&&) noexcept = default;
Membership::~Membership() = default;
std::uint16_t Membership::port() const { return door_ ? door_->port() : std::uint16_t{0}; }

namespace {

[[noreturn]] void throw_lost(int rank, const std::string& why) {
  throw PeerLost(rank, fmt::format("rank {} was lost in joining the job ({})", rank, why),
                 "its own last words may say more");
}

// Names the rank at the other end when it hangs up.
Task<> with(int rank, Task<> talk) {
  try {
    co_await talk;
  } catch (const HungUp& error) {
    throw_lost(rank, error.what());
  }
}

// The links of one rank while they come into being.
class Links {
 public:
  Links(TcpLoop& loop, const Job& job)
      : loop_(loop),
        job_(job),
        door_(std::make_unique<Door>(loop, job)),
        peers_(static_cast<std::size_t>(job.size)),
        roster_(peers_.size()) {}

  Task<> gather() {
    if (job_.rank == 0) {
      co_await until_here(1);
      co_await send_roster();
    } else {
      co_await call(0);
      co_await with(0, read_roster());
      has_roster_ = true;
      for (int rank = 1; rank < job_.rank; ++rank) co_await call(rank);
      co_await until_here(job_.rank + 1);
      for (int rank = job_.rank + 1; rank < job_.size; ++rank) {
        peer(rank).emplace(TcpComm::Peer{std::move(door_->guest(rank).socket), door_of(rank),
                                         kListenerHandshakeBytes, kCallerHandshakeBytes});
      }
    }
    door_->shut();
  }

  // Those we have no connection with.
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < job_.size; ++rank) {
      const bool here =
          rank == job_.rank || peers_[static_cast<std::size_t>(rank)] || door_->is_here(rank);
      if (!here) ranks.push_back(rank);
    }
    return ranks;
  }
  // Whether it is for rank 0 to know who is missing.
  bool wait_for_roster() const { return job_.rank > 0 && peers_[0] && !has_roster_; }

  // Tells those who are here on whose account there will be no job, as far as their sockets take it
  // at once.
  void give_up(int culprit) {
    for (int rank = 0; rank < job_.size; ++rank) {
      tcp::socket* socket = socket_to(rank);
      if (socket == nullptr) continue;
      asio::error_code ignored;
      if (job_.rank == 0 && !peer(rank)) {  // it waits for the roster
        const RosterHead head{static_cast<std::uint32_t>(culprit)};
        socket->write_some(asio::buffer(&head, sizeof head), ignored);
      } else {
        FrameHeader frame;
        frame.kind = FrameHeader::Kind::abort;
        frame.channel = static_cast<std::uint32_t>(culprit);
        socket->write_some(asio::buffer(&frame, sizeof frame), ignored);
      }
    }
  }

  std::unique_ptr<Door> take_door() { return std::move(door_); }
  Peers take_peers() { return std::move(peers_); }

 private:
  std::optional<TcpComm::Peer>& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  RosterEntry& entry_of(int rank) { return roster_[static_cast<std::size_t>(rank)]; }
  tcp::endpoint door_of(int rank) {
    return rank == 0 ? resolve(loop_, job_.rendezvous) : endpoint(entry_of(rank));
  }
  Bytes roster_memory() { return std::as_writable_bytes(std::span(roster_)); }
  std::uint64_t roster_bytes() { return sizeof(RosterHead) + roster_memory().size(); }

  // nullptr if that rank is not here yet.
  tcp::socket* socket_to(int rank) {
    if (peer(rank)) return &peer(rank)->socket;
    return door_->is_here(rank) ? &door_->guest(rank).socket : nullptr;
  }

  // Waits until the ranks [first, size) have come, and for no longer than all who came stay.
  Task<> until_here(int first) {
    while (true) {
      for (int rank = 0; rank < job_.size; ++rank) look_at(rank);
      bool all = true;
      for (int rank = first; rank < job_.size; ++rank) all = all && door_->is_here(rank);
      if (all) co_return;
      Task<int> news = race(hear(door_->arrivals()), sleep_until(loop_, loop_.now() + kNewsEvery));
      co_await news;
    }
  }
  static Task<> hear(Bell& bell) { co_await bell.rung(); }

  // Throws if that rank was here and has gone, or says on whose account it has. What it may have
  // sent already is left where it is.
  void look_at(int rank) {
    tcp::socket* socket = socket_to(rank);
    if (socket == nullptr) return;
    FrameHeader frame;
    const ssize_t got =
        ::recv(socket->native_handle(), &frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0) throw_lost(rank, "it hung up");
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      throw_lost(rank, std::generic_category().message(errno));
    }
    if (got == sizeof frame && frame.magic == FrameHeader::kMagic &&
        frame.kind == FrameHeader::Kind::abort) {
      throw_lost(static_cast<int>(frame.channel), "another rank reported it");
    }
  }

  Task<> send_roster() {
    for (int rank = 1; rank < job_.size; ++rank) {
      const Door::Guest& guest = door_->guest(rank);
      entry_of(rank) = entry(guest.address, guest.hello.listen_port);
    }
    RosterHead head;
    for (int rank = 1; rank < job_.size; ++rank) {
      tcp::socket& socket = door_->guest(rank).socket;
      co_await with(rank, write_all(loop_, socket, object_bytes(head)));
      co_await with(rank, write_all(loop_, socket, roster_memory()));
      peer(rank).emplace(TcpComm::Peer{std::move(socket), door_of(rank),
                                       kListenerHandshakeBytes + roster_bytes(),
                                       kCallerHandshakeBytes});
    }
  }

  Task<> read_roster() {
    RosterHead head;
    co_await read_exactly(loop_, peer(0)->socket, object_bytes(head));
    if (head.missing != RosterHead::kNobody) {
      throw_lost(static_cast<int>(head.missing), "rank 0 reported it");
    }
    co_await read_exactly(loop_, peer(0)->socket, roster_memory());
  }

  Task<> call(int rank) { co_await with(rank, shake_hands(rank)); }
  Task<> shake_hands(int rank) {
    const tcp::endpoint door = door_of(rank);
    Task<tcp::socket> connecting =
        rank == 0 ? connect_patiently(loop_, door) : connect(loop_, door);
    tcp::socket socket = co_await connecting;
    co_await introduce(loop_, socket, job_, rank, door_->port());
    peer(rank).emplace(TcpComm::Peer{std::move(socket), door, kCallerHandshakeBytes,
                                     kListenerHandshakeBytes + (rank == 0 ? roster_bytes() : 0)});
  }

  TcpLoop& loop_;
  const Job& job_;
  std::unique_ptr<Door> door_;
  Peers peers_;
  std::vector<RosterEntry> roster_;
  bool has_roster_ = false;
};

Error nobody_came(const Job& job, const Links& links) {
  const std::string who = links.wait_for_roster()
                              ? "rank 0 to hear from all others"
                              : fmt::format("rank {}", fmt::join(links.missing(), ", "));
  return Error(fmt::format("waited {} s for {}", job.timeout.count(), who),
               "see that every worker was started and can reach " + job.rendezvous);
}

}  // namespace

Task<Membership> join_task(TcpLoop& loop, Job job) {
  if (job.size == 1) co_return Membership(nullptr, std::make_unique<TcpComm>(loop, 0, Peers(1)));

  Links links(loop, job);
  // Rank 0 knows best who is missing: the others give it a moment longer, to say so.
  const Time patience = job.timeout + (job.rank == 0 ? Time(0) : kToBeTold);
  try {
    co_await within(loop, loop.now() + patience, "joining the job", links.gather());
  } catch (const PeerLost& lost) {
    links.give_up(lost.rank());
    throw;
  } catch (const DeadlineExceeded&) {
    if (!links.missing().empty()) links.give_up(links.missing().front());
    throw nobody_came(job, links);
  }
  auto comm = std::make_unique<TcpComm>(loop, job.rank, links.take_peers());
  co_return Membership(links.take_door(), std::move(comm));
}

Membership join(TcpLoop& loop, const Job& job) { return loop.run(join_task(loop, job)); }

tcp::acceptor listen_on_loopback(TcpLoop& loop) {
  return listen_at(loop, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
}

}  // namespace starling
