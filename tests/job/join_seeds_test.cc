// Joining, and the mesh that comes of it, on simulated hosts in any weather: either all join and
// understand each other, or each of them ends in time and blames the right one.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "exchange/collectives.h"
#include "job/handshake.h"
#include "job/join.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "sim/switch.h"
#include "tests/seeds.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kTimeout = 20s;
constexpr Time kGrace = 3s;  // beyond the timeout, to be told by others and tell others
constexpr Channel kTalk{10, Purpose::weights, "a talk"};
constexpr Channel kParting{20, Purpose::control, "parting"};

enum class Fault {
  none,
  brief_cut,     // of the victim's link with another, soon mended
  never_comes,   // the victim
  killed,        // its process ends
  vanishes,      // its machine does
  isolated,      // it lives, but nobody reaches it any more, nor it anybody
  pair_cut,      // the victim and another do not reach each other any more
  wrong_secret,  // the victim has another one
  other_terms,   // the victim was not started like the others
};
constexpr int kFaults = 9;

struct Scenario {
  int size;
  Weather weather;
  Fault fault;
  int victim, other;
  Time when, how_long;
  int strangers;
  bool encrypted;
  std::vector<Time> starts;

  explicit Scenario(Random random) {
    size = std::array{1, 2, 3, 5, 8}[random.below(5)];
    const auto time = [&](Time most) {
      return Time(random.below(static_cast<std::uint64_t>(most.count()) + 1));
    };
    weather.most_delay = std::array<Time, 3>{100us, 5ms, 40ms}[random.below(3)];
    weather.least_delay = time(weather.most_delay);
    weather.short_share = std::array{0.0, 0.3, 0.9}[random.below(3)];
    weather.capacity_bytes = std::array<std::size_t, 3>{512, 10'000, 200'000}[random.below(3)];
    fault = size == 1 ? Fault::none : static_cast<Fault>(random.below(kFaults));
    victim = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
    other =
        size == 1
            ? 0
            : (victim + 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(size - 1)))) %
                  size;
    const Time soon = std::array<Time, 3>{2ms, 50ms, 1500ms}[random.below(3)];
    when = time(soon);
    how_long = time(2s);
    strangers = static_cast<int>(random.below(4));
    for (int rank = 0; rank < size; ++rank)
      starts.push_back(time(std::array<Time, 2>{1ms, 400ms}[random.below(2)]));
    encrypted = random.below(2) == 0;
  }
};

std::ostream& operator<<(std::ostream& out, const Scenario& scenario) {
  const char* names[] = {"nothing happens", "brief cut", "never comes",  "killed",     "vanishes",
                         "isolated",        "pair cut",  "wrong secret", "other terms"};
  return out << scenario.size << " ranks, " << names[static_cast<int>(scenario.fault)] << " ("
             << scenario.victim << ", " << scenario.other << ") at " << scenario.when.count() / 1000
             << " us for " << scenario.how_long.count() / 1000 << " us, " << scenario.strangers
             << " strangers, " << (scenario.encrypted ? "encrypted, " : "") << scenario.weather
             << "\n";
}

// What one rank says to another. Unread it must leave room for the word on whose account its sender
// gives up: one who cannot say that any more is blamed itself, which no test here could tell from a
// lie.
std::vector<std::byte> words(int from, int to, int round, std::size_t most_bytes,
                             std::uint64_t seed) {
  Random random{seed, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to),
                static_cast<std::uint64_t>(round)};
  std::vector<std::byte> text(random.below(most_bytes));
  for (std::byte& byte : text) byte = static_cast<std::byte>(random.bits());
  return text;
}

Task<> talk_with(Comm& comm, int peer, std::size_t most_bytes, std::uint64_t seed) {
  for (int round = 0; round < 3; ++round) {
    const std::vector<std::byte> out = words(comm.rank(), peer, round, most_bytes, seed);
    const std::vector<std::byte> expected = words(peer, comm.rank(), round, most_bytes, seed);
    std::vector<std::byte> in(expected.size());
    Receive receive(comm, peer, kTalk, Bytes(in));
    Send send(comm, peer, kTalk, ConstBytes(out));
    co_await send;
    co_await receive;
    EXPECT_EQ(in, expected) << "rank " << comm.rank() << " misunderstood rank " << peer;
  }
}

class World {
 public:
  explicit World(std::uint64_t seed)
      : seed_(seed),
        scenario_(Random{seed, 1}),
        hub_(loop_, scenario_.size + 1, seed, scenario_.weather),
        lives_(static_cast<std::size_t>(scenario_.size)) {}

  // All that happened; checks it.
  std::string run() {
    const int absent = scenario_.fault == Fault::never_comes ? scenario_.victim : -1;
    for (int rank = 0; rank < scenario_.size; ++rank) {
      if (rank == absent) continue;
      loop_.at(scenario_.starts[static_cast<std::size_t>(rank)], [this, rank] {
        Life& life = this->life(rank);
        if (!life.gone) life.running = std::make_unique<Running>(live(rank));
      });
    }
    plan_fault();
    std::vector<std::unique_ptr<Running>> strangers;
    for (int i = 0; i < scenario_.strangers; ++i) {
      strangers.push_back(
          std::make_unique<Running>(bother(Random{seed_, 2, static_cast<std::uint64_t>(i)})));
    }
    loop_.run(within(loop_, 200s, "the test", until_all_have_ended()));
    std::ostringstream story;
    story << scenario_;
    for (int rank = 0; rank < scenario_.size; ++rank) check(rank, story);
    story << "trace " << hub_.trace() << " at " << loop_.now().count();
    return story.str();
  }

 private:
  struct Life {
    std::unique_ptr<Running> running;
    bool gone = false;  // by the fault
    bool joined = false, finished = false;
    std::set<int> blamed;  // by name
    bool cut_off = false;
    std::string last_words;
    Time ended{0};
  };
  Life& life(int rank) { return lives_[static_cast<std::size_t>(rank)]; }

  // Long enough to need several turns of a small link.
  static std::string terms(const char* lr) {
    return fmt::format("lr = {}\nmodel = {}\n", lr, std::string(1500, 'm'));
  }

  Job job(int rank, const std::string& secret) const {
    Job job;
    const bool differs = scenario_.fault == Fault::other_terms && rank == scenario_.victim;
    job.terms = terms(differs ? "0.9" : "0.1");
    job.rank = rank;
    job.size = scenario_.size;
    job.rendezvous = "host 0:29400";
    job.secret = secret;
    job.timeout = kTimeout;
    job.encryption.links = scenario_.encrypted ? Encryption::Links::all : Encryption::Links::none;
    return job;
  }

  Task<> live(int rank) {
    Life& life = this->life(rank);
    const bool is_wrong = scenario_.fault == Fault::wrong_secret && rank == scenario_.victim;
    try {
      Task<Membership> joining =
          join_task(hub_.host(rank), job(rank, is_wrong ? "a guess" : "a secret"));
      Membership member = co_await joining;
      life.joined = true;
      co_await within(loop_, loop_.now() + kTimeout, "the talk", talk(member.comm()));
      life.finished = true;
    } catch (const PeerLost& lost) {
      life.blamed = {lost.rank()};
      life.last_words = lost.what();
    } catch (const CutOff& cut_off) {
      life.cut_off = true;
      life.last_words = cut_off.what();
    } catch (const Error& error) {
      life.last_words = error.what();
      life.blamed = awaited(life.last_words);
    }
    life.ended = loop_.now();
  }

  Task<> talk(Comm& comm) {
    std::vector<Task<>> talks;
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer != comm.rank())
        talks.push_back(talk_with(comm, peer, scenario_.weather.capacity_bytes / 3, seed_));
    }
    co_await all(std::move(talks));
    co_await barrier(comm, kParting);
  }

  // "waited 20 s for ranks 1 and 3; ...", or "... for rank 0, called host 0 from host 1: ..."
  static std::set<int> awaited(const std::string& text) {
    std::set<int> ranks;
    const std::string before = "waited 20 s for rank";
    if (!text.starts_with(before) || text.find("to hear from") != std::string::npos) return ranks;
    const std::size_t end = std::min(text.find(", called"), text.find(';'));
    std::istringstream list(text.substr(before.size(), end - before.size()));
    for (std::string each; list >> each;) {
      if (std::isdigit(static_cast<unsigned char>(each[0]))) ranks.insert(std::stoi(each));
    }
    return ranks;
  }

  void plan_fault() {
    const int victim = scenario_.victim, other = scenario_.other;
    loop_.at(scenario_.when, [this, victim, other] {
      switch (scenario_.fault) {
        case Fault::none:
        case Fault::never_comes:
        case Fault::wrong_secret:
        case Fault::other_terms:
          return;
        case Fault::brief_cut:
        case Fault::pair_cut:
          hub_.cut(victim, other);
          return hub_.cut(other, victim);
        case Fault::isolated:
          return hub_.vanish(victim);
        case Fault::killed:
          hub_.kill(victim);
          return end(victim);
        case Fault::vanishes:
          hub_.vanish(victim);
          return end(victim);
      }
    });
    if (scenario_.fault != Fault::brief_cut) return;
    loop_.at(scenario_.when + scenario_.how_long, [this, victim, other] {
      hub_.mend(victim, other);
      hub_.mend(other, victim);
    });
  }
  void end(int rank) {
    if (life(rank).finished) return;
    life(rank).gone = true;
    life(rank).running.reset();
  }

  // One who has no business here, with one of the hosts.
  Task<> bother(Random random) {
    SimHost& host = hub_.host(scenario_.size);
    const int whom = static_cast<int>(random.below(static_cast<std::uint64_t>(scenario_.size)));
    Address door = host.find(fmt::format("host {}:{}", whom, whom == 0 ? 29400 : 40001));
    co_await sleep_until(loop_, Time(random.below(600'000'000)));
    Task<Host::Answer> calling = host.call(door);
    const Host::Answer answer = co_await calling;
    if (!answer.link) co_return;
    try {
      if (random.below(2) == 0) {
        const int pretended =
            static_cast<int>(random.below(static_cast<std::uint64_t>(scenario_.size) + 1));
        const Job guess = job(pretended, "another guess");
        co_await introduce(host, *answer.link, guess, whom, 1);
        ADD_FAILURE() << "a stranger was let in";
      } else {
        std::vector<std::byte> noise(random.below(200));
        for (std::byte& byte : noise) byte = static_cast<std::byte>(random.bits());
        co_await write_all(loop_, *answer.link, noise);
        co_await sleep_until(loop_, loop_.now() + Time(random.below(10'000'000'000)));
      }
    } catch (const Error&) {
    }
  }

  Task<> until_all_have_ended() {
    while (!std::ranges::all_of(lives_, [&](const Life& each) {
      const bool absent = scenario_.fault == Fault::never_comes &&
                          &each == &lives_[static_cast<std::size_t>(scenario_.victim)];
      return absent || each.gone || (each.running && each.running->done());
    })) {
      co_await sleep_until(loop_, loop_.now() + 10ms);
    }
  }

  void check(int rank, std::ostream& story) {
    const Life& life = this->life(rank);
    story << "  rank " << rank << ": "
          << (life.gone       ? "is gone"
              : life.finished ? "has finished"
                              : life.last_words)
          << " at " << life.ended.count() << "\n";
    const bool is_victim = rank == scenario_.victim, is_other = rank == scenario_.other;
    if (life.gone || (is_victim && scenario_.fault == Fault::never_comes)) return;
    if (!life.joined) {
      EXPECT_LE(life.ended - scenario_.starts[static_cast<std::size_t>(rank)], kTimeout + kGrace)
          << "rank " << rank << " was late to give up";
    }
    if (life.finished) {
      const bool none_may = scenario_.fault == Fault::never_comes ||
                            scenario_.fault == Fault::wrong_secret ||
                            scenario_.fault == Fault::other_terms;
      EXPECT_FALSE(none_may) << "rank " << rank << " has done without a rank";
      return;
    }
    EXPECT_TRUE(may_say(life, rank == 0, is_victim, is_other))
        << "rank " << rank << " says: " << life.last_words;
  }

  bool may_say(const Life& life, bool is_rank_0, bool is_victim, bool is_other) const {
    const std::set<int> victim = {scenario_.victim}, other = {scenario_.other};
    // Who is left with the victim alone cannot know which of both is cut off.
    const bool alone_with_victim = std::ranges::all_of(lives_, [&](const Life& each) {
      return &each == &life || &each == &lives_[static_cast<std::size_t>(scenario_.victim)] ||
             each.finished;
    });
    const bool of_two = alone_with_victim && life.cut_off;
    switch (scenario_.fault) {
      case Fault::none:
      case Fault::brief_cut:
        return false;
      case Fault::never_comes:
      case Fault::killed:
        return life.blamed == victim;
      case Fault::vanishes:
        return life.blamed == victim || of_two;
      case Fault::isolated:
        if (is_victim)
          return life.cut_off || (!life.blamed.empty() && !life.blamed.contains(scenario_.victim));
        return life.blamed == victim || of_two;
      case Fault::pair_cut:
        // To these two both are lost: the other, or itself to the others, who may be the most.
        return life.blamed == victim || life.blamed == other ||
               (life.cut_off && (is_victim || is_other));
      case Fault::wrong_secret:
        if (is_victim && scenario_.victim > 0) {
          return life.last_words.find("this job's secret") != std::string::npos;
        }
        if (scenario_.victim > 0) return life.blamed == victim;
        // Nobody agrees with rank 0.
        return is_victim ? !life.blamed.empty()
                         : life.last_words.find("this job's secret") != std::string::npos;
      case Fault::other_terms:
        // Rank 0 and the one that differs name it; the others are told, unless rank 0 has gone
        // before they came.
        if (life.last_words.find("lr = 0.1") != std::string::npos &&
            life.last_words.find("lr = 0.9") != std::string::npos) {
          return is_rank_0 || is_victim || scenario_.victim == 0;
        }
        return life.blamed == victim || life.blamed == std::set<int>{0};
    }
    return false;
  }

  std::uint64_t seed_;
  Scenario scenario_;
  SimLoop loop_;
  Switch hub_;
  std::vector<Life> lives_;
};

TEST(JoinSeeds, AllJoinOrEachBlamesTheRightOneInTime) {
  each_seed_twice_alike(300, [](std::uint64_t seed) { return World(seed).run(); });
}

}  // namespace
}  // namespace starling
