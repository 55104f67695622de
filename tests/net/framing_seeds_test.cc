// Framing between two ranks over a simulated link in any weather: what is received is what was sent,
// channel by channel in order, however it was cut into pieces, kept, held back, without room for a
// while or withdrawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "net/mesh.h"
#include "net/tls_link.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "sim/switch.h"
#include "tests/chest.h"
#include "tests/seeds.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// What one rank sends the other on one channel.
struct Lane {
  int from;
  Channel channel;
  std::size_t length;  // of each message,
  std::size_t head;    // of which so many bytes are its head
  bool sized;          // on arrival, by a lender that has no room at times
  int messages;
  int window;        // so many are posted ahead by the sender
  double withdrawn;  // this share of the sends
  int receives_to_withdraw;
  Time sender_rests, receiver_rests;  // at most, between two messages
  Time receiver_comes;                // before, nobody asks for anything
};

enum class Trouble { none, brief_cuts, killed, cut_for_ever };

std::vector<std::byte> payload(const Lane& lane, int number, std::uint64_t seed) {
  Random random{seed, lane.channel.id, static_cast<std::uint64_t>(lane.from),
                static_cast<std::uint64_t>(number)};
  std::vector<std::byte> bytes(lane.length);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 8 == 0) bits = random.bits();
    bytes[i] = static_cast<std::byte>(bits >> (i % 8 * 8));
  }
  return bytes;
}

class Talk {
 public:
  explicit Talk(std::uint64_t seed)
      : seed_(seed), random_{seed, 3}, weather_(draw_weather()), hub_(loop_, 2, seed, weather_) {
    plan_lanes();
    trouble_ = static_cast<Trouble>(random_.below(4));
    encrypted_ = random_.below(2) == 0;
  }

  std::string run() {
    loop_.run(connect());
    std::vector<std::vector<Task<>>> sides(2);
    for (const Lane& lane : lanes_) {
      sides[static_cast<std::size_t>(lane.from)].push_back(send(lane));
      sides[static_cast<std::size_t>(1 - lane.from)].push_back(receive(lane));
    }
    for (int rank : {0, 1}) {
      side(rank).running.emplace(live(rank, all(std::move(sides[static_cast<std::size_t>(rank)]))));
    }
    make_trouble();
    Task<int> contest = race(until_over(), sleep_until(loop_, loop_.now() + 10'000s));
    const int winner = loop_.run(std::move(contest));
    EXPECT_EQ(winner, 0) << "they do not come to an end";
    return check();
  }

 private:
  struct Posted {
    std::vector<std::byte> bytes;
    std::optional<Send> send;
  };
  struct Side {
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Mesh> mesh;
    std::list<Posted> unread;  // for all we know
    std::optional<Running> running;
    bool gone = false;
    std::string outcome;
  };
  Side& side(int rank) { return sides_[static_cast<std::size_t>(rank)]; }

  Time up_to(Time most) {
    return Time(random_.below(static_cast<std::uint64_t>(most.count()) + 1));
  }
  template <class T, std::size_t kCount>
  T one_of(const std::array<T, kCount>& choices) {
    return choices[random_.below(kCount)];
  }

  Weather draw_weather() {
    Weather weather;
    weather.most_delay = one_of(std::array<Time, 3>{1us, 1ms, 30ms});
    weather.least_delay = up_to(weather.most_delay);
    weather.short_share = one_of(std::array{0.0, 0.2, 0.9});
    weather.capacity_bytes = one_of(std::array<std::size_t, 4>{17, 1000, 20'000, 300'000});
    return weather;
  }

  void plan_lanes() {
    // Many tiny messages that nobody asks for fill the store: each counts for 4 KiB.
    const bool floods = weather_.capacity_bytes >= 1000 && random_.below(8) == 0;
    const bool has_long_ones = weather_.capacity_bytes >= 20'000 && random_.below(4) == 0;
    const int lanes = 1 + static_cast<int>(random_.below(8));
    for (int i = 0; i < lanes; ++i) {
      Lane lane;
      lane.from = static_cast<int>(random_.below(2));
      lane.channel = {static_cast<std::uint32_t>(i + 1), static_cast<Purpose>(random_.below(2)),
                      "a talk"};
      lane.length = random_.below(one_of(std::array<std::uint64_t, 3>{3, 100, 3000}));
      lane.messages = 1 + static_cast<int>(random_.below(12));
      if (has_long_ones && random_.below(3) == 0) {
        lane.length = 200'000 + random_.below(400'000);
        lane.messages = 2;
      }
      lane.head = random_.below(std::min<std::size_t>(lane.length, 40) + 1);
      lane.sized = random_.below(2) == 0;
      lane.window = 1 + static_cast<int>(random_.below(5));
      lane.withdrawn = lane.length < 16 ? 0 : one_of(std::array{0.0, 0.0, 0.5});
      lane.receives_to_withdraw = lane.length < 16 ? 0 : static_cast<int>(random_.below(3));
      lane.sender_rests = one_of(std::array<Time, 3>{0ms, 1ms, 100ms});
      lane.receiver_rests = one_of(std::array<Time, 3>{0ms, 1ms, 100ms});
      lane.receiver_comes = one_of(std::array<Time, 3>{0ms, 0ms, 1000ms});
      if (floods && i == 0) {
        lane.length = lane.head = random_.below(10);
        lane.messages = 6000;
        lane.window = 1000;
        lane.withdrawn = 0;
        lane.receives_to_withdraw = 0;
        lane.sender_rests = lane.receiver_rests = 0ms;
        lane.receiver_comes = 5s;
      }
      lanes_.push_back(lane);
    }
    got_.resize(lanes_.size());
  }

  Task<> connect() {
    std::array<std::vector<std::optional<Mesh::Peer>>, 2> peers;
    for (int rank : {0, 1}) {
      side(rank).listener = hub_.host(rank).listen({}, 100);
      peers[static_cast<std::size_t>(rank)].resize(2);
    }
    Task<Host::Answer> calling = hub_.host(0).call(hub_.host(0).find("host 1:100"));
    Host::Answer answer = co_await calling;
    Task<Listener::Caller> accepting = side(1).listener->accept();
    Listener::Caller caller = co_await accepting;
    if (encrypted_) co_await encrypt(answer.link, caller.link);
    peers[0][1].emplace(Mesh::Peer{std::move(answer.link), hub_.host(0).find("host 1:100"), 0, 0});
    peers[1][0].emplace(Mesh::Peer{std::move(caller.link), hub_.host(0).find("host 0:100"), 0, 0});
    for (int rank : {0, 1}) {
      side(rank).mesh = std::make_unique<Mesh>(hub_.host(rank), rank,
                                               std::move(peers[static_cast<std::size_t>(rank)]));
    }
  }

  Task<> encrypt(std::unique_ptr<Link>& first, std::unique_ptr<Link>& second) {
    auto calls = std::make_unique<TlsLink>(loop_, std::move(first), keys_, TlsLink::Side::caller);
    auto listens =
        std::make_unique<TlsLink>(loop_, std::move(second), keys_, TlsLink::Side::listener);
    std::vector<Task<>> both;
    both.push_back(calls->shake_hands());
    both.push_back(listens->shake_hands());
    co_await all(std::move(both));
    first = std::move(calls);
    second = std::move(listens);
  }

  // Not to be awaited without a time: where there are no tail calls, thousands of tasks that end at
  // once would fill the stack.
  Task<> rest(Time most) { co_await sleep_until(loop_, loop_.now() + Time(1) + up_to(most)); }

  // A receive that is withdrawn may take one message with it, so that as many more are sent.
  static int all_messages(const Lane& lane) { return lane.messages + lane.receives_to_withdraw; }
  // The last ones are never withdrawn: the receiver waits for them.
  bool is_withdrawn(const Lane& lane, int number) const {
    return number < lane.messages - 1 &&
           Random{seed_, 4, lane.channel.id, static_cast<std::uint64_t>(number)}.uniform() <
               lane.withdrawn;
  }

  Task<> send(const Lane& lane) {
    std::list<Posted> posted;
    Mesh& mesh = *side(lane.from).mesh;
    for (int number = 0; number < all_messages(lane); ++number) {
      Posted& next = posted.emplace_back(payload(lane, number, seed_));
      const ConstBytes bytes = next.bytes;
      next.send.emplace(mesh, 1 - lane.from, lane.channel, bytes.subspan(lane.head),
                        bytes.first(lane.head));
      if (lane.sender_rests > 0s) co_await rest(lane.sender_rests);
      if (is_withdrawn(lane, number)) {
        next.send.reset();
        std::ranges::fill(next.bytes, std::byte{0xee});  // its memory is the caller's again
        posted.pop_back();
      }
      // Those that are sent in case need not be received.
      while (number<lane.messages&& static_cast<int>(posted.size())> lane.window) {
        Send& first = *posted.front().send;
        co_await first;
        posted.pop_front();
      }
    }
    side(lane.from).unread.splice(side(lane.from).unread.end(), posted);
  }

  Task<> receive(const Lane& lane) {
    std::vector<int>& got = got_[static_cast<std::size_t>(&lane - lanes_.data())];
    Mesh& mesh = *side(1 - lane.from).mesh;
    co_await sleep_until(loop_, loop_.now() + lane.receiver_comes);
    int left_to_withdraw = lane.receives_to_withdraw;
    for (int number = -1; number < lane.messages - 1;) {
      std::vector<std::byte> in(lane.head, std::byte{0xdd});
      Chest chest;
      chest.memory.resize(lane.sized ? 0 : lane.length - lane.head, std::byte{0xdd});
      chest.is_full = lane.sized && random_.below(2) == 0;
      std::optional<Receive> receive;
      if (lane.sized) {
        receive.emplace(mesh, lane.from, lane.channel, lane.length, chest, Bytes(in));
      } else {
        receive.emplace(mesh, lane.from, lane.channel, Bytes(chest.memory), Bytes(in));
      }
      if (left_to_withdraw > 0 && random_.below(4) == 0) {
        --left_to_withdraw;
        co_await rest(10ms);
        if (!receive->done()) continue;
      }
      if (chest.is_full) {
        co_await rest(10ms);
        chest.is_full = false;
        receive->ask_again();
      }
      Receive& arrival = *receive;
      co_await arrival;
      in.insert(in.end(), chest.memory.begin(), chest.memory.end());
      number = next_like(lane, number, in);
      got.push_back(number);
      if (number < 0) co_return;
      if (lane.receiver_rests > 0s) co_await rest(lane.receiver_rests);
    }
  }

  // The number of the message that this is, behind the last one; -1 if it is none.
  int next_like(const Lane& lane, int last, const std::vector<std::byte>& in) {
    for (int number = last + 1; number < all_messages(lane); ++number) {
      if (payload(lane, number, seed_) == in) return number;
      if (!is_withdrawn(lane, number) && lane.receives_to_withdraw == 0) break;
    }
    return -1;
  }

  Task<> live(int rank, Task<> talks) {
    try {
      co_await talks;
      side(rank).outcome = "fine";
    } catch (const PeerLost& lost) {
      side(rank).outcome = "lost " + std::to_string(lost.rank());
    } catch (const CutOff&) {
      side(rank).outcome = "cut off";
    }
  }

  void make_trouble() {
    const Time now = loop_.now();
    if (trouble_ == Trouble::brief_cuts) {
      for (Time when = now + up_to(200ms); when < now + 6s; when += 2500ms) {
        const int from = static_cast<int>(random_.below(2));
        const bool both = random_.below(2) == 0;
        const Time mended = when + up_to(2s);
        loop_.at(when, [this, from, both] {
          hub_.cut(from, 1 - from);
          if (both) hub_.cut(1 - from, from);
        });
        loop_.at(mended, [this] {
          hub_.mend(0, 1);
          hub_.mend(1, 0);
        });
      }
    } else if (trouble_ == Trouble::killed) {
      loop_.at(now + up_to(1s), [this] {
        hub_.kill(1);
        if (side(1).running->done()) return;
        side(1).gone = true;
        side(1).running.reset();
        side(1).unread.clear();
        side(1).mesh.reset();
      });
    } else if (trouble_ == Trouble::cut_for_ever) {
      loop_.at(now + up_to(1s), [this] { hub_.vanish(1); });
    }
  }

  // The meshes stay until both have ended: what is unread is not missed.
  Task<> until_over() {
    const auto over = [this](int rank) { return side(rank).gone || side(rank).running->done(); };
    while (!over(0) || !over(1)) co_await sleep_until(loop_, loop_.now() + 50ms);
  }

  std::string check() {
    std::ostringstream story;
    story << "trouble " << static_cast<int>(trouble_) << (encrypted_ ? ", encrypted, " : ", ")
          << weather_;
    for (int rank : {0, 1})
      story << ", rank " << rank << ": " << (side(rank).gone ? "gone" : side(rank).outcome);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const Lane& lane = lanes_[i];
      const std::vector<int>& got = got_[i];
      story << "\n  lane " << i << " from " << lane.from << ", " << lane.length << " bytes, got "
            << got.size() << " of " << lane.messages;
      EXPECT_EQ(std::ranges::find(got, -1), got.end()) << "what came was never sent, on lane " << i;
      // All before the last one that came must have come.
      int missing = 0;
      for (int number = 0; number < (got.empty() ? 0 : got.back()); ++number) {
        missing +=
            !is_withdrawn(lane, number) && std::ranges::find(got, number) == got.end() ? 1 : 0;
      }
      EXPECT_LE(missing, lane.receives_to_withdraw) << "on lane " << i;
    }
    story << "\n  trace " << hub_.trace() << " at " << loop_.now().count();
    const bool harmless = trouble_ == Trouble::none || trouble_ == Trouble::brief_cuts;
    const std::string& zero = side(0).outcome;
    const std::string& one = side(1).outcome;
    EXPECT_TRUE(zero == "fine" || (!harmless && zero == "lost 1")) << "rank 0: " << zero;
    EXPECT_TRUE(side(1).gone || one == "fine" ||
                (!harmless && one == (trouble_ == Trouble::killed ? "" : "cut off")))
        << "rank 1: " << one;
    return story.str();
  }

  std::uint64_t seed_;
  TlsKeys keys_{"a secret of two"};
  bool encrypted_ = false;
  Random random_;
  Weather weather_;
  SimLoop loop_;
  Switch hub_;
  Trouble trouble_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<int>> got_;
  std::array<Side, 2> sides_;
};

TEST(FramingSeeds, WhatIsReceivedIsWhatWasSent) {
  each_seed_twice_alike(200, [](std::uint64_t seed) { return Talk(seed).run(); });
}

}  // namespace
}  // namespace starling
