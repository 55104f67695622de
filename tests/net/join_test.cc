// Joining a job, and who may not.
#include "net/join.h"

#include <gtest/gtest.h>

#include <asio/write.hpp>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "net/handshake.h"
#include "net/socket_io.h"
#include "tests/net/flock.h"

namespace starling {
namespace {

using asio::ip::tcp;
constexpr Channel kChannel{1, Purpose::weights};

tcp::socket knock(Flock& flock, int rank) {
  tcp::socket socket(flock.loop().io());
  socket.connect({asio::ip::address_v4::loopback(), flock.member(rank).port()});
  return socket;
}

void expect_the_run_goes_on(Flock& flock) {
  std::vector<float> values(1000, 1);
  std::vector<std::vector<float>> vectors(3, values);
  flock.run([&](Comm& comm) {
    return ring_allreduce(comm, kChannel, vectors[static_cast<std::size_t>(comm.rank())]);
  });
  for (const auto& vector : vectors) EXPECT_EQ(vector[999], 3.0f);
}

// Until the other side hangs up; fails the test if it never does.
void expect_hang_up(Flock& flock, tcp::socket& socket) {
  socket.non_blocking(true);
  std::array<char, 1000> bytes;
  asio::error_code error = asio::error::would_block;
  const Time patience = flock.loop().now() + std::chrono::seconds(8);
  while (!error || error == asio::error::would_block) {
    ASSERT_LT(flock.loop().now(), patience) << "a stranger was not refused";
    flock.loop().poll();
    socket.read_some(asio::buffer(bytes), error);
  }
}

std::string refusal(Flock& flock, Job job, int door) {
  try {
    tcp::socket socket = knock(flock, door);
    flock.loop().run(introduce(flock.loop(), socket, job, door, 1));
  } catch (const Error& error) {
    return error.what();
  }
  return "was let in";
}

TEST(Join, RefusesStrangersAndTheRunGoesOn) {
  Flock flock(3);
  {
    tcp::socket scanner = knock(flock, 0);
    asio::write(
        scanner,
        asio::buffer(std::string("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n")));
    expect_hang_up(flock, scanner);
  }
  {
    tcp::socket noise = knock(flock, 1);
    asio::write(noise, asio::buffer(std::string(48, '\xff')));
    expect_hang_up(flock, noise);
  }
  { tcp::socket silent = knock(flock, 2); }
  expect_the_run_goes_on(flock);
}

TEST(Join, HangsUpOnWhoSaysNothing) {
  Flock flock(3);
  tcp::socket silent = knock(flock, 0);
  expect_hang_up(flock, silent);
  expect_the_run_goes_on(flock);
}

TEST(Join, RefusesAWrongSecretJobSizeAndRank) {
  Flock flock(3);
  Job job = flock.job(2);
  job.secret = "a guess";
  EXPECT_NE(refusal(flock, job, 0).find("does not know this job's secret"), std::string::npos);
  job = flock.job(2);
  job.id = 8;
  EXPECT_NE(refusal(flock, job, 0).find("another job"), std::string::npos);
  job = flock.job(2);
  job.size = 4;
  EXPECT_NE(refusal(flock, job, 0).find("another number of workers"), std::string::npos);
  job = flock.job(2);
  job.rank = 5;
  EXPECT_NE(refusal(flock, job, 0).find("its rank cannot be"), std::string::npos);
  EXPECT_NE(refusal(flock, flock.job(0), 1).find("its rank cannot be"), std::string::npos);
  expect_the_run_goes_on(flock);
}

TEST(Join, RefusesAProofMadeWithoutTheSecret) {
  // A caller that ignores the listener's proof and sends one of its own making.
  Flock flock(3);
  tcp::socket socket = knock(flock, 0);
  Hello hello;
  hello.rank = 2;
  hello.size = 3;
  hello.job_id = flock.job(0).id;
  asio::write(socket, asio::buffer(&hello, sizeof hello));
  std::array<std::byte, 32> forged{};
  asio::write(socket, asio::buffer(forged));
  expect_hang_up(flock, socket);
  expect_the_run_goes_on(flock);
}

TEST(Join, RefusesAnotherProtocolVersion) {
  Flock flock(3);
  tcp::socket socket = knock(flock, 0);
  Hello hello;
  hello.version = kProtocolVersion + 1;
  asio::write(socket, asio::buffer(&hello, sizeof hello));
  expect_hang_up(flock, socket);
  expect_the_run_goes_on(flock);
}

TEST(Join, SaysWhoDidNotCome) {
  TcpLoop loop;
  Job job;
  job.size = 3;
  job.rendezvous = "127.0.0.1:0";
  job.secret = "x";
  job.timeout = std::chrono::seconds(1);
  try {
    join(loop, job);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("waited 1 s for rank 1, 2"), std::string::npos)
        << error.what();
  }
}

// A rank that has proved itself and then sends nonsense.
TEST(Join, AFrameOfAbsurdLengthBreaksOnlyThatConnection) {
  TcpLoop loop;
  auto listener = listen_on_loopback(loop);
  Job job;
  job.size = 2;
  job.rendezvous = "127.0.0.1:" + std::to_string(listener.local_endpoint().port());
  job.secret = "x";
  job.listen_fd = ::dup(listener.native_handle());
  Job other = job;
  other.rank = 1;

  std::optional<Membership> member;
  const auto come = [](TcpLoop& l, Job j, std::optional<Membership>& m) -> Task<> {
    m.emplace(co_await join_task(l, j));
  };
  Running joining(come(loop, job, member));
  tcp::socket socket(loop.io());
  socket.connect({asio::ip::address_v4::loopback(), listener.local_endpoint().port()});
  loop.run(introduce(loop, socket, other, 0, 1));
  loop.drive(joining);

  float value = 0;
  auto receive = member->comm().receive(1, kChannel.in("a test"), std::span(&value, 1));
  FrameHeader absurd;
  absurd.remaining_bytes = ~std::uint64_t{0};
  asio::write(socket, asio::buffer(&absurd, sizeof absurd));
  while (!receive.done()) loop.poll();
  try {
    receive.await_resume();
    FAIL();
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), 1);
    EXPECT_NE(std::string(lost.what()).find("makes no sense"), std::string::npos) << lost.what();
  }
}

}  // namespace
}  // namespace starling
