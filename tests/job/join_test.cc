// Joining a job, and who may not.
#include "job/join.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <asio/write.hpp>
#include <list>
#include <memory>
#include <optional>

#include "base/error.h"
#include "job/handshake.h"
#include "runtime/race.h"
#include "tests/error_of.h"
#include "tests/net/borrowed_link.h"
#include "tests/net/patience.h"

namespace starling {
namespace {

using asio::ip::tcp;
constexpr Channel kChannel{1, Purpose::weights};

// Ranks of one job, of which some join when the test says so, and others not at all.
class Gathering {
 public:
  explicit Gathering(int size, std::chrono::seconds timeout = std::chrono::seconds(20)) {
    tcp::acceptor listener = listen_on_loopback(loop_);
    where_ = listener.local_endpoint();
    for (int rank = 0; rank < size; ++rank) {
      Job job;
      job.rank = rank;
      job.size = size;
      job.rendezvous = "127.0.0.1:" + std::to_string(where_.port());
      job.secret = "a secret of those who gather";
      job.timeout = timeout;
      jobs_.push_back(job);
    }
    listen_fd_ = ::dup(listener.native_handle());
    comings_.resize(jobs_.size());
  }

  TcpLoop& loop() { return loop_; }
  Job& job(int rank) { return jobs_[static_cast<std::size_t>(rank)]; }
  Membership& member(int rank) { return *comings_[static_cast<std::size_t>(rank)].member; }

  void start(int rank) {
    Coming& coming = comings_[static_cast<std::size_t>(rank)];
    auto listener = rank == 0 ? host_.adopt(listen_fd_) : nullptr;
    coming.running =
        std::make_unique<Running>(come(host_, job(rank), std::move(listener), coming.member));
  }
  // Another machine believes to be that rank.
  void start_again(int rank) {
    second_.running = std::make_unique<Running>(come(host_, job(rank), nullptr, second_.member));
  }
  std::string failure_of_second() {
    poll_until(loop_, [&] { return second_.running->done(); });
    return error_of([&] { second_.running->rethrow_failure(); });
  }
  // As if its process had died.
  void kill(int rank) {
    comings_[static_cast<std::size_t>(rank)].running.reset();
    comings_[static_cast<std::size_t>(rank)].member.reset();
  }
  // Until all has happened that can, which in one process takes no time but turns of the loop.
  void settle() {
    for (int i = 0; i < 1000; ++i) loop_.poll();
  }

  bool is_done(int rank) const { return comings_[static_cast<std::size_t>(rank)].running->done(); }
  void until_all_are_here() {
    poll_until(loop_, [&] {
      return std::ranges::all_of(comings_, [](const Coming& each) {
        if (each.running) each.running->rethrow_failure();
        return each.member.has_value();
      });
    });
  }
  std::string failure_of(int rank) {
    poll_until(loop_, [&] { return is_done(rank); });
    return error_of([&] { comings_[static_cast<std::size_t>(rank)].running->rethrow_failure(); });
  }
  // Whom it says that it has lost, if anybody.
  std::optional<int> lost_by(int rank) {
    poll_until(loop_, [&] { return is_done(rank); });
    try {
      comings_[static_cast<std::size_t>(rank)].running->rethrow_failure();
    } catch (const PeerLost& lost) {
      return lost.rank();
    } catch (const Error&) {
    }
    return std::nullopt;
  }

  // A connection to where rank 0 listens.
  tcp::socket call() {
    tcp::socket socket(loop_.io());
    socket.connect(where_);
    return socket;
  }
  // What becomes of one who introduces itself so.
  std::string introduce_as(const Job& job, int to) {
    tcp::socket socket = call();
    return error_of([&] { introduce_as(socket, job, to, 1); });
  }
  void introduce_as(tcp::socket& socket, const Job& job, int to, std::uint32_t listen_port) {
    BorrowedLink link(socket);
    loop_.run(within(loop_, loop_.now() + std::chrono::seconds(20), "the test",
                     introduce(host_, link, job, to, listen_port)));
  }
  // Rank 0 is who it says, lets the next caller in, and says this instead of the roster.
  void answer_as_rank_0(std::array<std::uint32_t, 2> head) {
    tcp::acceptor door(loop_.io(), tcp::v4(), listen_fd_);
    tcp::socket socket = door.accept();
    BorrowedLink link(socket);
    loop_.run(within(loop_, loop_.now() + std::chrono::seconds(20), "the test", let_in(link)));
    asio::write(socket, asio::buffer(head));
  }

 private:
  Task<> let_in(Link& link) {
    Task<Hello> hearing = hear_hello(host_, link);
    const Hello hello = co_await hearing;
    co_await examine(host_, link, job(0), hello, "somewhere");
  }
  struct Coming {
    std::optional<Membership> member;
    std::unique_ptr<Running> running;
  };

  static Task<> come(Host& host, Job job, std::unique_ptr<Listener> listener,
                     std::optional<Membership>& member) {
    Task<Membership> joining = join_task(host, job, std::move(listener));
    member.emplace(co_await joining);
  }

  TcpLoop loop_;
  TcpHost host_{loop_};
  int listen_fd_;
  tcp::endpoint where_;
  std::vector<Job> jobs_;
  std::vector<Coming> comings_;
  Coming second_;
};

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

bool has_hung_up(tcp::socket& socket) {
  socket.non_blocking(true);
  std::array<char, 1000> bytes;
  asio::error_code error;
  socket.read_some(asio::buffer(bytes), error);
  return error && error != asio::error::would_block;
}

void write(tcp::socket& socket, const auto& object) {
  asio::write(socket, asio::buffer(&object, sizeof object));
}

TEST(Join, RefusesStrangersWhileItWaitsForMembers) {
  Gathering gathering(3);
  gathering.start(0);
  gathering.start(1);
  tcp::socket scanner = gathering.call(), noise = gathering.call(), old = gathering.call();
  asio::write(
      scanner,
      asio::buffer(std::string("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n")));
  asio::write(noise, asio::buffer(std::string(sizeof(Hello), '\xff')));
  Hello other_version;
  other_version.version = kProtocolVersion + 1;
  write(old, other_version);
  { tcp::socket knock = gathering.call(); }
  for (tcp::socket* stranger : {&scanner, &noise, &old}) {
    poll_until(gathering.loop(), [&] { return has_hung_up(*stranger); });
  }
  gathering.start(2);
  gathering.until_all_are_here();
}

TEST(Join, HangsUpOnWhoSaysNothing) {
  Gathering gathering(2);
  gathering.start(0);
  tcp::socket silent = gathering.call();
  poll_until(gathering.loop(), [&] { return has_hung_up(silent); });
}

TEST(Join, RefusesAWrongSecretAndRank) {
  Gathering gathering(4);
  gathering.start(0);
  Job job = gathering.job(2);
  job.secret = "a guess";
  EXPECT_TRUE(mentions(gathering.introduce_as(job, 0),
                       "rank 0 refused rank 2: it does not know this job's secret"));
  job = gathering.job(2);
  job.rank = 4;
  EXPECT_TRUE(mentions(gathering.introduce_as(job, 0), "its rank cannot be"));
  EXPECT_TRUE(mentions(gathering.introduce_as(gathering.job(0), 0), "its rank cannot be"));
  for (int rank = 1; rank < 4; ++rank) gathering.start(rank);
  gathering.until_all_are_here();
}

TEST(Join, LetsARankInOnce) {
  Gathering gathering(3);
  gathering.start(0);
  gathering.start(1);
  gathering.settle();
  gathering.start_again(1);
  EXPECT_EQ(gathering.failure_of_second(),
            "rank 0 has a rank 1 already; give each machine a --machine of its own");
  gathering.start(2);
  gathering.until_all_are_here();
  int word = 7, heard = 0;  // the first one is still the one
  auto send = gathering.member(1).comm().send(0, kChannel, std::span(&word, 1));
  auto receive = gathering.member(0).comm().receive(1, kChannel, std::span(&heard, 1));
  poll_until(gathering.loop(), [&] { return receive.done(); });
  EXPECT_EQ(heard, 7);
}

// Were each of them listened to for as long as one may be silent, 64 at a time, it would take longer
// than joining may.
TEST(Join, IsNotKeptByACrowdOfSilentCallers) {
  Gathering gathering(3);
  gathering.start(0);
  std::list<tcp::socket> crowd;
  for (int i = 0; i < 400; ++i) crowd.push_back(gathering.call());
  gathering.settle();
  EXPECT_TRUE(has_hung_up(crowd.front())) << "so many are not listened to at a time";
  gathering.start(1);
  gathering.start(2);
  gathering.until_all_are_here();
}

TEST(Join, HangsUpOnEveryCallerOnceAllAreHere) {
  Gathering gathering(3);
  for (int rank = 0; rank < 3; ++rank) gathering.start(rank);
  gathering.until_all_are_here();
  for (int rank = 0; rank < 3; ++rank) {
    tcp::socket caller(gathering.loop().io());
    caller.connect({asio::ip::address_v4::loopback(),
                    static_cast<std::uint16_t>(gathering.member(rank).port())});
    Hello hello;
    hello.rank = 2;
    hello.to = static_cast<std::uint32_t>(rank);
    hello.size = 3;
    write(caller, hello);
    caller.non_blocking(true);
    asio::error_code error = asio::error::would_block;
    std::size_t heard = 0;
    poll_until(gathering.loop(), [&] {
      std::array<char, 1000> bytes;
      heard += caller.read_some(asio::buffer(bytes), error);
      return error && error != asio::error::would_block;
    });
    EXPECT_EQ(heard, 0u) << "it was listened to";
  }
}

TEST(Join, DoesNotSpinWithoutFileDescriptors) {
  Gathering gathering(2);
  gathering.start(0);
  tcp::socket caller(gathering.loop().io());
  caller.open(tcp::v4());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  asio::error_code error;
  caller.connect({asio::ip::address_v4::loopback(),
                  static_cast<std::uint16_t>(std::stoi(gathering.job(0).rendezvous.substr(10)))},
                 error);
  int turns = 0;
  const Running rest(
      sleep_until(gathering.loop(), gathering.loop().now() + std::chrono::milliseconds(500)));
  while (!rest.done()) {
    gathering.loop().io().run_one();
    gathering.loop().poll();
    ++turns;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(error);
  EXPECT_LT(turns, 50);
  gathering.start(1);
  gathering.until_all_are_here();
}

TEST(Join, SaysWhoDidNotCome) {
  Gathering gathering(4, std::chrono::seconds(1));
  gathering.start(0);
  gathering.start(2);
  EXPECT_TRUE(mentions(gathering.failure_of(0), "waited 1 s for ranks 1 and 3"))
      << gathering.failure_of(0);
  gathering.kill(0);
  const std::string told = gathering.failure_of(2);
  EXPECT_TRUE(mentions(told, "rank 1 was lost in joining the job (rank 0 reported it)") ||
              mentions(told, "waited 1 s for rank 0 to hear from all others"))
      << told;
}

TEST(Join, SaysWhoWasRefusedWhenItDidNotCome) {
  Gathering gathering(3, std::chrono::seconds(1));
  gathering.start(0);
  gathering.start(1);
  Job job = gathering.job(2);
  job.secret = "another secret";
  gathering.introduce_as(job, 0);
  EXPECT_EQ(
      gathering.failure_of(0),
      "waited 1 s for rank 2; one from 127.0.0.1 that called itself rank 2 was refused: it does "
      "not know this job's secret; give every machine the same secret");
}

// There will be no job, so nobody waits for the timeout.
TEST(Join, EndsAtOnceWhenTwoWereNotStartedAlike) {
  Gathering gathering(4, std::chrono::hours(1));
  for (int rank : {0, 1}) gathering.start(rank);
  gathering.settle();
  gathering.job(3).terms = "lr = 0.9\n";
  gathering.start(3);
  EXPECT_TRUE(mentions(gathering.failure_of(0),
                       "rank 3 on 127.0.0.1 has lr = 0.9 and no workers, and rank 0 has no lr and "
                       "workers = 4;"))
      << gathering.failure_of(0);
  EXPECT_TRUE(mentions(gathering.failure_of(3), "rank 0 at 127.0.0.1:")) << gathering.failure_of(3);
  EXPECT_TRUE(
      mentions(gathering.failure_of(3), " has no lr and workers = 4, and rank 3 has lr = 0.9"))
      << gathering.failure_of(3);
  EXPECT_EQ(gathering.failure_of(1),
            "rank 3 was not started like rank 0; their own last words say what differs");
}

TEST(Join, SaysWhoDiedWhileTheOthersWereAwaited) {
  Gathering gathering(4);
  for (int rank : {0, 1, 2}) gathering.start(rank);
  gathering.settle();
  gathering.kill(2);
  EXPECT_TRUE(mentions(gathering.failure_of(0), "rank 2 was lost in joining the job (it hung up)"))
      << gathering.failure_of(0);
  EXPECT_TRUE(
      mentions(gathering.failure_of(1), "rank 2 was lost in joining the job (rank 0 reported it)"))
      << gathering.failure_of(1);
}

TEST(Join, SaysThatRankZeroDied) {
  Gathering gathering(3);
  for (int rank : {0, 1}) gathering.start(rank);
  gathering.settle();
  gathering.kill(0);
  EXPECT_TRUE(mentions(gathering.failure_of(1), "rank 0 was lost in joining the job (it hung up)"))
      << gathering.failure_of(1);
}

// Rank 1 has said hello to rank 0 and died; rank 2 finds nobody at the address in the roster.
TEST(Join, SaysWhoDoesNotAnswerAnyMore) {
  Gathering gathering(3);
  gathering.start(0);
  tcp::socket one = gathering.call();
  tcp::acceptor gone = listen_on_loopback(gathering.loop());
  const std::uint16_t port = gone.local_endpoint().port();
  gone.close();
  gathering.introduce_as(one, gathering.job(1), 0, port);
  gathering.start(2);
  EXPECT_TRUE(
      mentions(gathering.failure_of(2), "rank 1 was lost in joining the job (Connection refused)"))
      << gathering.failure_of(2);
}

// Rank 1 waits for rank 2, and hears from rank 0, which has begun, that it will not come.
TEST(Join, HearsOnWhoseAccountAnotherGaveUp) {
  Gathering gathering(3);
  gathering.start(0);
  gathering.start(1);
  tcp::socket two = gathering.call();
  gathering.introduce_as(two, gathering.job(2), 0, 1);
  poll_until(gathering.loop(), [&] { return gathering.is_done(0); });
  int word = 0;
  auto lost = gathering.member(0).comm().receive(2, kChannel, std::span(&word, 1));
  two.close();
  poll_until(gathering.loop(), [&] { return lost.done(); });
  gathering.kill(0);
  EXPECT_TRUE(mentions(gathering.failure_of(1),
                       "rank 2 was lost in joining the job (another rank reported it)"))
      << gathering.failure_of(1);
}

// A number that comes over the wire is no rank before somebody has looked.
TEST(Join, BlamesNobodyWhoIsNotInTheJob) {
  for (const std::uint32_t nobody : {3u, 0x80000000u, ~0u - 1}) {
    for (const std::uint32_t why : {0u, 1u, 9u}) {  // gone, disagrees, none at all
      Gathering gathering(3);
      gathering.start(1);
      gathering.settle();
      gathering.answer_as_rank_0({nobody, why});
      // Rank 0, which knows better, has ended in trouble of its own; it is not ours.
      EXPECT_EQ(gathering.lost_by(1), why == 1 ? std::optional(0) : std::nullopt);
      EXPECT_EQ(gathering.failure_of(1),
                why == 1 ? fmt::format("rank {} was not started like rank 0; their own last words "
                                       "say what differs",
                                       nobody)
                         : fmt::format("rank 0 reported that rank {} was lost, which there is not",
                                       nobody));
    }
    Gathering gathering(3);
    gathering.start(0);
    tcp::socket one = gathering.call();
    gathering.introduce_as(one, gathering.job(1), 0, 1);
    FrameHeader frame;
    frame.kind = FrameHeader::Kind::abort;
    frame.channel = nobody;
    write(one, frame);
    EXPECT_EQ(gathering.lost_by(0), std::nullopt);
    EXPECT_EQ(
        gathering.failure_of(0),
        fmt::format("another rank reported that rank {} was lost, which there is not", nobody));
  }
}

}  // namespace
}  // namespace starling
