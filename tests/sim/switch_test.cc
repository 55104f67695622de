// Simulated hosts and links: each fault does what its name says.
#include "sim/switch.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "base/error.h"
#include "runtime/race.h"
#include "tests/error_of.h"

namespace starling {
namespace {

using namespace std::chrono_literals;
using Status = Link::Status;

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

// Host 1 listens, host 0 calls.
struct Street {
  explicit Street(Weather weather = {}, std::uint64_t seed = 1) : hub(loop, 3, seed, weather) {
    listener = hub.host(1).listen({}, 100);
    loop.run(connect());
  }

  Task<> connect() {
    Task<Host::Answer> calling = hub.host(0).call(door());
    Host::Answer answer = co_await calling;
    Task<Listener::Caller> accepting = listener->accept();
    Listener::Caller caller = co_await accepting;
    here = std::move(answer.link);
    there = std::move(caller.link);
  }
  Address door() { return hub.host(0).find("host 1:100"); }
  void pass(Time time) { loop.run(sleep_until(loop, loop.now() + time)); }
  Status status_of_reading(Link& link) {
    std::array<std::byte, 100> bytes;
    return link.read_some(Bytes(bytes)).status;
  }
  std::string what_comes_of(Task<Host::Answer> call) {
    std::string outcome = "silence";
    loop.run(within_a_minute(std::move(call), outcome));
    return outcome;
  }
  Task<> within_a_minute(Task<Host::Answer> call, std::string& outcome) {
    Task<int> contest = race(hear(std::move(call), outcome), sleep_until(loop, loop.now() + 60s));
    co_await contest;
  }
  static Task<> hear(Task<Host::Answer> call, std::string& outcome) {
    const Host::Answer answer = co_await call;
    outcome = answer.link ? "a link" : answer.refused ? "refused: " + answer.why : answer.why;
  }

  SimLoop loop;
  Switch hub;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Link> here, there;
};

Task<> send_and_close(Loop& loop, std::unique_ptr<Link>& link, ConstBytes bytes) {
  co_await write_all(loop, *link, bytes);
  link->close();
}

TEST(Switch, CarriesBytesInOrderAndWholeInPiecesOfManySizes) {
  Street street({.least_delay = 1us, .most_delay = 1ms, .short_share = 0.9, .capacity_bytes = 100});
  const auto out = some_bytes(10'000);
  std::vector<std::byte> in;
  std::set<std::size_t> pieces;
  const Running sending(send_and_close(street.loop, street.here, out));
  while (true) {
    std::array<std::byte, 60> first;
    std::array<std::byte, 60> second;
    const auto [status, bytes, error] = street.there->read_some({Bytes(first), Bytes(second)});
    if (status == Status::closed) break;
    if (status == Status::not_now) {
      street.pass(100us);
      continue;
    }
    ASSERT_EQ(status, Status::moved);
    pieces.insert(bytes);
    for (std::size_t i = 0; i < bytes; ++i) in.push_back(i < 60 ? first[i] : second[i - 60]);
  }
  EXPECT_EQ(in, out);
  EXPECT_GT(pieces.size(), 10u);
  EXPECT_TRUE(pieces.contains(1));
}

TEST(Switch, AFullLinkTakesNoMoreUntilSomethingIsRead) {
  Street street({.capacity_bytes = 50});
  const auto out = some_bytes(80);
  EXPECT_EQ(street.here->write_some(ConstBytes(out)).bytes, 50u);
  EXPECT_EQ(street.here->write_some(ConstBytes(out)).status, Status::not_now);
  int called = 0;
  street.here->when_writable([&] { ++called; });
  street.pass(1s);
  EXPECT_EQ(called, 0);
  std::array<std::byte, 7> in;
  EXPECT_EQ(street.there->read_some(Bytes(in)).bytes, 7u);
  street.pass(1s);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(street.here->write_some(ConstBytes(out)).bytes, 7u);
}

TEST(Switch, TellsOnceWhenSomethingCanBeRead) {
  Street street({.least_delay = 1ms, .most_delay = 1ms});
  int called = 0, taken_back = 0;
  street.there->when_readable([&] { ++taken_back; });
  street.there->when_readable([&] { ++called; });
  street.here->write_some(ConstBytes(some_bytes(1)));
  EXPECT_EQ(street.status_of_reading(*street.there), Status::not_now) << "it takes its time";
  street.pass(1s);
  street.here->write_some(ConstBytes(some_bytes(1)));
  street.pass(1s);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(taken_back, 0);
  street.there->when_readable([&] { ++called; });
  street.there->when_readable(nullptr);
  street.pass(1s);
  EXPECT_EQ(called, 1);
}

TEST(Switch, AnEndThatClosesIsHeardBehindItsLastByte) {
  Street street;
  street.here->write_some(ConstBytes(some_bytes(10)));
  street.here->close();
  EXPECT_TRUE(street.there->signs_of_life().established);
  street.pass(1s);
  EXPECT_FALSE(street.there->signs_of_life().established);
  EXPECT_EQ(street.status_of_reading(*street.there), Status::moved);
  EXPECT_EQ(street.status_of_reading(*street.there), Status::closed);
  EXPECT_EQ(street.there->write_some(ConstBytes(some_bytes(1))).status, Status::moved);
  street.pass(1s);
  const Link::Transfer late = street.there->write_some(ConstBytes(some_bytes(1)));
  EXPECT_EQ(late.status, Status::broken);
  EXPECT_EQ(late.error, std::errc::connection_reset);
}

TEST(Switch, NothingArrivesThroughACutUntilItIsMended) {
  Street street;
  street.hub.cut(0, 1);
  street.here->write_some(ConstBytes(some_bytes(10)));
  street.there->write_some(ConstBytes(some_bytes(10)));
  street.pass(60s);
  EXPECT_EQ(street.status_of_reading(*street.there), Status::not_now);
  EXPECT_EQ(street.status_of_reading(*street.here), Status::moved) << "the other way is not cut";
  EXPECT_TRUE(street.here->signs_of_life().owes_answer);
  EXPECT_TRUE(street.there->signs_of_life().owes_answer) << "its answer does not come back";
  street.hub.mend(0, 1);
  street.pass(1s);
  EXPECT_EQ(street.status_of_reading(*street.there), Status::moved);
  EXPECT_FALSE(street.here->signs_of_life().owes_answer);
  EXPECT_FALSE(street.there->signs_of_life().owes_answer);
}

TEST(Switch, AnIdleLinkThatStaysCutTimesOut) {
  Street street;
  street.hub.cut(1, 0);
  street.pass(2s);
  street.hub.mend(1, 0);
  street.pass(60s);
  EXPECT_EQ(street.status_of_reading(*street.here), Status::not_now) << "it was mended in time";
  street.hub.cut(1, 0);
  street.pass(6s);
  std::array<std::byte, 1> in;
  EXPECT_EQ(street.here->read_some(Bytes(in)).error, std::errc::timed_out);
  EXPECT_EQ(street.there->read_some(Bytes(in)).error, std::errc::timed_out);
}

TEST(Switch, AKilledHostHangsUpAndRefusesCalls) {
  Street street;
  EXPECT_EQ(street.what_comes_of(street.hub.host(2).call(street.door())), "a link");
  street.hub.kill(1);
  street.pass(1s);
  EXPECT_EQ(street.status_of_reading(*street.here), Status::closed);
  EXPECT_EQ(street.there->write_some(ConstBytes(some_bytes(1))).status, Status::broken);
  EXPECT_EQ(street.what_comes_of(street.hub.host(2).call(street.door())),
            "refused: Connection refused");
}

TEST(Switch, AHostThatVanishesIsSilent) {
  Street street;
  street.hub.vanish(1);
  EXPECT_EQ(street.what_comes_of(street.hub.host(2).call(street.door())), "silence");
}

TEST(Switch, AListenerThatHasGoneRefuses) {
  Street street;
  street.listener.reset();
  EXPECT_EQ(street.what_comes_of(street.hub.host(2).call(street.door())),
            "refused: Connection refused");
  EXPECT_THROW(street.hub.host(0).find("10.0.0.1:80"), Error);
}

TEST(Switch, LeavesTheSameTraceForTheSameSeedOnly) {
  const auto trace = [](std::uint64_t seed) {
    Street street({.most_delay = 1ms, .short_share = 0.5, .capacity_bytes = 64}, seed);
    const auto out = some_bytes(1000);
    std::vector<std::byte> in(1000);
    const Running sending(send_and_close(street.loop, street.here, out));
    street.loop.run(read_exactly(street.loop, *street.there, in));
    EXPECT_EQ(in, out);
    return street.hub.trace();
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

}  // namespace
}  // namespace starling
