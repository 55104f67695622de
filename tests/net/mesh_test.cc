// Comm over real loopback sockets.
#include "net/mesh.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>

#include "base/error.h"
#include "base/random.h"
#include "exchange/allreduce.h"
#include "exchange/coded_allreduce.h"
#include "exchange/collectives.h"
#include "exchange/pairwise.h"
#include "runtime/group.h"
#include "tests/chest.h"
#include "tests/counted_allocations.h"
#include "tests/error_of.h"
#include "tests/exchange/typed_values.h"
#include "tests/net/channels.h"
#include "tests/net/flock.h"

namespace starling {
namespace {

std::vector<std::vector<float>> random_vectors(int size, std::size_t elements) {
  Random random{1, elements};
  std::vector<std::vector<float>> vectors(static_cast<std::size_t>(size),
                                          std::vector<float>(elements));
  for (auto& vector : vectors) {
    for (float& value : vector) value = static_cast<float>(random.uniform(-1, 1));
  }
  return vectors;
}

std::vector<float>& of(std::vector<std::vector<float>>& vectors, const Comm& comm) {
  return vectors[static_cast<std::size_t>(comm.rank())];
}

TEST(Mesh, KnowsThatAllRanksAreOnOneHost) {
  Flock flock(3);
  std::vector<Carrier> known;
  flock.run([&](Comm& comm) -> Task<> {
    known.push_back(comm.carrier());
    co_return;
  });
  EXPECT_EQ(known, std::vector(3, Carrier::loopback));
}

TEST(Address, IsLoopbackIfOnlyItsOwnMachineCanCallThere) {
  Address version4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 1, 1}, 1};
  EXPECT_TRUE(is_loopback(version4));
  version4.ip[12] = 10;
  EXPECT_FALSE(is_loopback(version4));
  Address version6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1};
  EXPECT_TRUE(is_loopback(version6));
  version6.ip[0] = 0xfd;
  EXPECT_FALSE(is_loopback(version6));
}

TEST(Mesh, RunsEveryAllreduceAsInTheSimulator) {
  for (int size : {1, 2, 3, 4, 5, 8}) {
    Flock flock(size);
    for (const NamedAllreduce& allreduce : kAllreduces) {
      for (std::size_t elements : {0u, 1u, 1001u, 1'000'003u}) {
        auto vectors = random_vectors(size, elements);
        const auto before = vectors;
        flock.run([&](Comm& comm) {
          return allreduce.run(comm, kOne, of(vectors, comm), Reduction::sum);
        });
        for (std::size_t i = 0; i < elements; ++i) {
          double sum = 0;
          for (const auto& vector : before) sum += static_cast<double>(vector[i]);
          ASSERT_NEAR(vectors[0][i], sum, 1e-5) << allreduce.name << " n=" << size << " i=" << i;
        }
        for (const auto& vector : vectors) ASSERT_EQ(vector, vectors[0]) << allreduce.name;
      }
    }
  }
}

// Every type by the ring, in a group of some ranks, as the plain loop.
TEST(Mesh, ReducesEveryTypeInAGroup) {
  Flock flock(5);
  const std::vector<int> ranks = {3, 0, 4};
  for (const Element type : all_elements()) {
    auto all = values_of_all(type, 70'001, 3);
    TypedValues expected = all[0];
    combine(expected.vector(), all[1].vector(), Reduction::max);
    combine(expected.vector(), all[2].vector(), Reduction::max);
    flock.run([&](Comm& comm) {
      const Group group(comm, ranks, 2);
      return group.rank() < 0
                 ? barrier(group.first(0, 1), kOne)
                 : ring_allreduce(group, kOne, all[static_cast<std::size_t>(group.rank())].vector(),
                                  Reduction::max);
    });
    for (const TypedValues& each : all) ASSERT_EQ(each, expected);
  }
}

TEST(Mesh, CountsExactlyTheBytesThatTheKernelCarried) {
  Flock flock(3);
  auto vectors = random_vectors(3, 700'001);
  flock.run(
      [&](Comm& comm) { return ring_allreduce(comm, kOne, of(vectors, comm), Reduction::sum); });
  flock.run([&](Comm& comm) { return pairwise_average(comm, kTwo, of(vectors, comm), 1); });
  flock.run([&](Comm& comm) { return barrier(comm, kTwo); });
  for (int rank = 0; rank < 3; ++rank) {
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == rank) continue;
      const TcpInfo kernel = flock.link(rank, peer).kernel_info();
      std::uint64_t sent = 0, received = 0;
      for (std::size_t p = 0; p < kPurposeNames.size(); ++p) {
        const auto purpose = static_cast<Purpose>(p);
        sent += flock.comm(rank).ledger().count(peer, Direction::sent, purpose).wire;
        received += flock.comm(rank).ledger().count(peer, Direction::received, purpose).wire;
      }
      EXPECT_EQ(sent, kernel.sent_bytes) << rank << " to " << peer;
      EXPECT_EQ(received, kernel.received_bytes) << rank << " from " << peer;
    }
    const ByteCount weights = flock.comm(rank).ledger().total(Direction::sent, Purpose::weights);
    EXPECT_GT(weights.payload, 0.99 * static_cast<double>(weights.wire));
  }
}

Task<> send_long_then_short(Comm& comm, std::span<float> long_one, std::vector<int>& order) {
  if (comm.rank() == 0) {
    int word = 42;
    auto slow = comm.send(1, kOne, long_one);
    auto quick = comm.send(1, kTwo, std::span(&word, 1));
    co_await quick;
    co_await slow;
  } else {
    int word = 0;
    auto slow = comm.receive(0, kOne, long_one);
    auto quick = comm.receive(0, kTwo, std::span(&word, 1));
    co_await quick;
    order.push_back(word);
    if (!slow.done()) order.push_back(1);
    co_await slow;
    order.push_back(2);
  }
}

TEST(Mesh, LetsAShortMessageOvertakeALongOneOfAnotherChannel) {
  Flock flock(2);
  auto vectors = random_vectors(2, 16'000'000);
  std::vector<int> order;
  flock.run([&](Comm& comm) { return send_long_then_short(comm, of(vectors, comm), order); });
  EXPECT_EQ(order, (std::vector<int>{42, 1, 2}));
  EXPECT_EQ(vectors[0], vectors[1]);
}

Task<> send_numbers(Comm& comm, int count, std::vector<int>& got) {
  for (int i = 0; i < count; ++i) {
    if (comm.rank() == 0) {
      co_await comm.send(1, kOne, std::span(&i, 1));
    } else {
      int number = -1;
      co_await comm.receive(0, kOne, std::span(&number, 1));
      got.push_back(number);
    }
  }
}

TEST(Mesh, KeepsTheOrderWithinAChannel) {
  Flock flock(2);
  std::vector<int> got;
  flock.run([&](Comm& comm) { return send_numbers(comm, 1000, got); });
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], i);
}

TEST(Mesh, HoldsALongSendBackUntilSomebodyReceives) {
  Flock flock(2);
  std::vector<float> out(16'000'000, 1.5f), in(16'000'000);
  {
    auto send = flock.comm(0).send(1, kOne, std::span(out));
    for (int i = 0; i < 100; ++i) flock.loop().poll();
    EXPECT_FALSE(send.done()) << "64 MB went somewhere though nobody asked for them";
    auto receive = flock.comm(1).receive(0, kOne, std::span(in));
    flock.run([&](Comm& comm) { return barrier(comm, kTwo); });
    flock.until_done(receive);
    EXPECT_TRUE(send.done());
  }
  EXPECT_EQ(in, out);
}

TEST(Mesh, KeepsWhatIsNotAskedForYetWhileAnotherChannelWaits) {
  Flock flock(2);
  std::vector<float> out(100'000, 2.5f), in(100'000);
  int word = 5, heard = 0;
  auto first = flock.comm(0).send(1, kOne, std::span(out));
  auto second = flock.comm(0).send(1, kTwo, std::span(&word, 1));
  auto wait = flock.comm(1).receive(0, kTwo, std::span(&heard, 1));
  flock.until_done(wait);
  EXPECT_EQ(heard, 5);
  auto late = flock.comm(1).receive(0, kOne, std::span(in));
  flock.until_done(late);
  EXPECT_EQ(in, out);
}

// However long the unread ones are, and however many.
TEST(Mesh, BringsAShortMessageThroughBehindUnreadOnesLongerThanTheStore) {
  constexpr std::size_t kElements = Inbox::kStoredLimitBytes / sizeof(float);
  const auto channel = [](std::size_t i) {
    return Channel{static_cast<std::uint32_t>(10 + i), Purpose::weights};
  };
  Flock flock(2);
  std::vector<std::vector<float>> out;
  std::list<Send> sends;
  for (std::size_t i = 0; i < 3; ++i) {
    out.emplace_back(kElements + i * 100'000, static_cast<float>(i));
    sends.emplace_back(flock.comm(0), 1, channel(i), bytes_of(std::span(out.back())));
  }
  int word = 5, heard = 0;
  auto send = flock.comm(0).send(1, kTwo, std::span(&word, 1));
  auto wait = flock.comm(1).receive(0, kTwo, std::span(&heard, 1));
  flock.until_done(wait);
  EXPECT_EQ(heard, 5);
  for (int i = 0; i < 1000; ++i) flock.loop().poll();
  for (const Send& held : sends) EXPECT_FALSE(held.done()) << "who keeps so much?";
  for (std::size_t i = 3; i-- > 0;) {
    std::vector<float> in(out[i].size());
    auto receive = flock.comm(1).receive(0, channel(i), std::span(in));
    flock.until_done(receive);
    EXPECT_EQ(in, out[i]);
  }
}

TEST(Mesh, GoesOnAfterOperationsAreWithdrawnHalfWay) {
  Flock flock(2);
  std::vector<float> out(16'000'000, 3.5f), in(16'000'000);
  std::vector<int> got;
  {
    auto send = flock.comm(0).send(1, kOne, std::span(out));
    auto receive = flock.comm(1).receive(0, kOne, std::span(in));
    ASSERT_FALSE(send.done() || receive.done());  // what the kernel's buffers held has moved
  }
  flock.run([&](Comm& comm) { return send_numbers(comm, 10, got); });
  EXPECT_EQ(got.size(), 10u);
  EXPECT_EQ(got.back(), 9);
}

TEST(Mesh, GoesOnAfterAMessageIsWithdrawnBeforeItsTurn) {
  Flock flock(2);
  std::vector<float> out(1'000'000, 4.5f), in(1'000'000);
  auto long_one = flock.comm(0).send(1, kOne, std::span(out));
  ASSERT_FALSE(long_one.done());
  int word = 1, heard = 0;
  { auto waits_behind = flock.comm(0).send(1, kTwo, std::span(&word, 1)); }
  { auto only_one = flock.comm(0).send(1, Channel{3, Purpose::control}, std::span(&word, 1)); }
  word = 2;
  auto second = flock.comm(0).send(1, kTwo, std::span(&word, 1));
  auto receive = flock.comm(1).receive(0, kTwo, std::span(&heard, 1));
  auto all = flock.comm(1).receive(0, kOne, std::span(in));
  flock.until_done(receive, all);
  EXPECT_EQ(heard, 2);
  EXPECT_EQ(in, out);
}

// Several messages on each of many channels, received in another order than they were sent.
TEST(Mesh, KeepsManyChannelsApart) {
  constexpr std::uint32_t kChannels = 200;
  constexpr int kMessages = 3;
  const auto channel = [](std::uint32_t i) { return Channel{100 + i, Purpose::weights}; };
  // Of every length, from none to several fragments.
  const auto length = [](std::uint32_t i) { return static_cast<std::size_t>(i * i * i / 64); };
  Flock flock(2);
  std::vector<std::vector<float>> out, in;
  std::list<Send> sends;
  std::list<Receive> receives;
  for (std::uint32_t i = 0; i < kChannels; ++i) {
    for (int message = 0; message < kMessages; ++message) {
      out.emplace_back(length(i), static_cast<float>(i * 10) + static_cast<float>(message));
      in.emplace_back(length(i));
    }
  }
  const auto of = [](auto& vectors, std::uint32_t i, int message) {
    return std::span(vectors[i * kMessages + static_cast<std::size_t>(message)]);
  };
  for (int message = 0; message < kMessages; ++message) {
    for (std::uint32_t i = 0; i < kChannels; ++i) {
      sends.emplace_back(flock.comm(0), 1, channel(i), bytes_of(of(out, i, message)));
    }
    for (std::uint32_t i = kChannels; i-- > 0;) {
      receives.emplace_back(flock.comm(1), 0, channel(i), writable_bytes(of(in, i, message)));
    }
  }
  const auto is_done = [](const Receive& receive) { return receive.done(); };
  flock.until([&] { return std::ranges::all_of(receives, is_done); });
  EXPECT_EQ(in, out);
}

TEST(Mesh, AllocatesNothingInASteadyStateExchange) {
  Flock flock(4);
  auto vectors = random_vectors(4, 300'001);
  std::size_t per_round = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::unique_ptr<Running>> ranks;
    ranks.reserve(4);
    const std::size_t before = allocations;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.push_back(std::make_unique<Running>(ring_allreduce(
          flock.comm(rank), kOne, vectors[static_cast<std::size_t>(rank)], Reduction::sum)));
    }
    for (const auto& rank : ranks) flock.loop().drive(*rank);
    per_round = allocations - before;
  }
  EXPECT_LE(per_round, 4u) << "the four make_unique of this test are all there may be";
}

TEST(Mesh, AllocatesNothingInASteadyCodedExchange) {
  using CodedKind = CodecSettings::Kind;
  for (const CodedKind codec :
       {CodedKind::half, CodedKind::threshold, CodedKind::top_k, CodedKind::random,
        CodedKind::quantized, CodedKind::hierarchical, CodedKind::sign, CodedKind::low_rank}) {
    Flock flock(3);
    std::list<CodedAllreduce> exchanges;
    for (int rank = 0; rank < 3; ++rank) {
      exchanges.emplace_back(flock.comm(rank), CodecSettings{.kind = codec}, 30'001, CodecStream{});
    }
    std::size_t per_round = 0;
    for (int round = 0; round < 6; ++round) {
      auto vectors = random_vectors(3, 30'001);
      std::vector<std::unique_ptr<Running>> ranks;
      ranks.reserve(3);
      const std::size_t before = allocations;
      for (CodedAllreduce& exchange : exchanges) {
        ranks.push_back(std::make_unique<Running>(exchange.mean(kOne, vectors[ranks.size()])));
      }
      for (const auto& rank : ranks) flock.loop().drive(*rank);
      per_round = allocations - before;
    }
    EXPECT_LE(per_round, 3u) << name_of(codec) << ": the three make_unique of this test";
  }
}

TEST(Mesh, SaysWhoWasLostInWhatWhenAPeerVanishes) {
  Flock flock(3);
  std::vector<float> in(1000), other(1000);
  auto from_lost = flock.comm(0).receive(2, kOne.in("a ring all-reduce"), std::span(in));
  auto from_other = flock.comm(0).receive(1, kTwo.in("a barrier"), std::span(other));
  ::shutdown(flock.link(2, 0).descriptor(), SHUT_RDWR);  // as if the process had died
  flock.until_done(from_lost, from_other);
  EXPECT_EQ(error_of([&] { from_lost.await_resume(); }),
            "rank 2 was lost in a ring all-reduce (it closed the connection)");
  EXPECT_EQ(error_of([&] { from_other.await_resume(); }),
            "rank 2 was lost in a barrier (it closed the connection)");
  auto later = flock.comm(0).send(1, kOne.in("a later send"), std::span(in));
  EXPECT_EQ(error_of([&] { later.await_resume(); }),
            "rank 2 was lost in a later send (it closed the connection)");
}

TEST(Mesh, NoticesALossBehindAMessageThatNobodyTakes) {
  Flock flock(3);
  std::vector<float> out(10), in(10);
  auto unwanted = flock.comm(2).send(0, kTwo, std::span(out));
  for (int i = 0; i < 10; ++i) flock.loop().poll();
  auto waiting = flock.comm(0).receive(1, kOne, std::span(in));
  ::shutdown(flock.link(2, 0).descriptor(), SHUT_RDWR);
  flock.until_done(waiting);
  EXPECT_THROW(waiting.await_resume(), PeerLost);
}

TEST(Mesh, NoticesOneLossAfterAnotherBehindMessagesThatNobodyTakes) {
  Flock flock(5);
  for (int rank = 0; rank < 5; ++rank) Group(flock.comm(rank)).contain_losses();
  std::vector<float> out(10);
  for (int lost : {2, 1}) {
    auto unwanted = flock.comm(lost).send(0, kTwo, std::span(out));
    for (int i = 0; i < 10; ++i) flock.loop().poll();
    ::shutdown(flock.link(lost, 0).descriptor(), SHUT_RDWR);
    flock.until([&] { return flock.comm(0).is_lost(lost); });
  }
}

TEST(Mesh, LetsAPeerLeaveAndStillReadsItsLastMessage) {
  Flock flock(2);
  int last = 7, got = 0, more = 0;
  auto send = flock.comm(1).send(0, kOne, std::span(&last, 1));
  ASSERT_TRUE(send.done());
  flock.leave(1);
  auto receive = flock.comm(0).receive(1, kOne, std::span(&got, 1));
  flock.until_done(receive);
  EXPECT_EQ(got, 7);
  auto next = flock.comm(0).receive(1, kOne.in("a gather"), std::span(&more, 1));
  flock.until_done(next);
  EXPECT_EQ(error_of([&] { next.await_resume(); }), "rank 1 was lost in a gather (it has left)");
}

TEST(Mesh, TellsTheOthersOnWhoseAccountItGaveUp) {
  Flock flock(3);
  float value = 0;
  // Rank 1 loses rank 2 and gives up; rank 0, which has not noticed rank 2's loss, hears of it from
  // rank 1.
  auto waiting = flock.comm(0).receive(1, kOne, std::span(&value, 1));
  ::shutdown(flock.link(2, 1).descriptor(), SHUT_RDWR);
  for (int i = 0; i < 50; ++i) flock.loop().poll();
  ASSERT_FALSE(waiting.done());
  flock.leave(1);
  flock.until_done(waiting);
  EXPECT_EQ(error_of([&] { waiting.await_resume(); }),
            "rank 2 was lost in a test (rank 1 reported it)");
}

Task<> send_number(Comm& comm, int peer, int value) {
  co_await comm.send(peer, kOne, object_bytes(value));
}

TEST(Mesh, AContainedLossConcernsOnlyThoseWhoTalkToTheLost) {
  Flock flock(3);
  for (int rank = 0; rank < 3; ++rank) Group(flock.comm(rank)).contain_losses();
  std::string from_one, from_two, again;
  Running waiting(receive_number(flock.comm(0), 2, from_two));
  ::shutdown(flock.link(2, 0).descriptor(), SHUT_RDWR);
  flock.loop().drive(waiting);
  EXPECT_EQ(from_two, "lost 2");
  EXPECT_TRUE(flock.comm(0).is_lost(2));
  EXPECT_FALSE(flock.comm(1).is_lost(2));
  std::vector<Task<>> talks;
  talks.push_back(send_number(flock.comm(1), 0, 7));
  talks.push_back(receive_number(flock.comm(0), 1, from_one));
  talks.push_back(receive_number(flock.comm(0), 2, again));
  flock.loop().run(all(std::move(talks)));
  EXPECT_EQ(from_one, "7");
  EXPECT_EQ(again, "lost 2");
}

TEST(Mesh, CarriesHeadsAndSizesReceivesOnArrival) {
  Flock flock(2);
  for (const std::size_t size : {0, 1, 1000, 262'000, 262'144, 1'000'001}) {
    std::uint64_t head = size, seen = 0;
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(size + 1));
    Chest chest;
    Receive receive(flock.comm(1), 0, kOne, 2'000'000, chest, object_bytes(seen));
    Send send(flock.comm(0), 1, kOne, bytes, object_bytes(head));
    flock.until_done(receive);
    EXPECT_EQ(seen, size);
    EXPECT_EQ(chest.memory, bytes);
    flock.until_done(send);
  }
}

TEST(Mesh, AWithdrawnMessageThatHasBegunArrivesWithItsHead) {
  Flock flock(2);
  std::uint64_t head = 77, seen = 0;
  std::vector<std::byte> bytes(30'000'000, std::byte{3});  // more than the kernels take
  auto send = std::make_unique<Send>(flock.comm(0), 1, kOne, bytes, object_bytes(head));
  ASSERT_FALSE(send->done());
  send.reset();
  std::ranges::fill(bytes, std::byte{4});
  head = 78;
  Chest chest;
  Receive receive(flock.comm(1), 0, kOne, bytes.size(), chest, object_bytes(seen));
  flock.until_done(receive);
  EXPECT_EQ(seen, 77u);
  EXPECT_EQ(std::ranges::count(chest.memory, std::byte{3}), 30'000'000);
}

TEST(Mesh, ALongMessageWithoutRoomStaysWithItsSenderAndOthersPass) {
  Flock flock(2);
  const std::vector<std::byte> bytes(30'000'000, std::byte{3});
  Chest chest;
  chest.is_full = true;
  auto send = flock.comm(0).send(1, kOne, ConstBytes(bytes));
  Receive receive(flock.comm(1), 0, kOne, bytes.size(), chest);
  for (int word = 0; word < 20; ++word) {
    int heard = -1;
    auto ask = flock.comm(1).receive(0, kTwo, object_bytes(heard));
    auto tell = flock.comm(0).send(1, kTwo, object_bytes(word));
    flock.until_done(ask);
    EXPECT_EQ(heard, word);
  }
  EXPECT_FALSE(send.done());
  chest.is_full = false;
  receive.ask_again();
  flock.until_done(receive);
  flock.until_done(send);
  EXPECT_EQ(chest.memory, bytes);
}

TEST(Mesh, AReceiveWithoutRoomFailsWithItsPeer) {
  Flock flock(2);
  const std::vector<std::byte> bytes(100);
  Chest chest;
  chest.is_full = true;
  Receive receive(flock.comm(1), 0, kOne, bytes.size(), chest);
  {
    auto send = flock.comm(0).send(1, kOne, ConstBytes(bytes));
    flock.until_done(send);
  }
  flock.leave(0);
  flock.until_done(receive);
  EXPECT_NE(error_of([&] { receive.await_resume(); }).find("rank 0 was lost"), std::string::npos);
}

TEST(Mesh, ExplainsAMessageThatDoesNotFitAndWasHereFirst) {
  Flock flock(2);
  std::vector<float> out(10), in(11);
  int word = 5, heard = 0;
  auto send = flock.comm(0).send(1, kOne, std::span(out));
  auto behind = flock.comm(0).send(1, kTwo, std::span(&word, 1));
  auto wait = flock.comm(1).receive(0, kTwo, std::span(&heard, 1));
  flock.until_done(wait);
  auto receive = flock.comm(1).receive(0, kOne.in("a pairwise exchange"), std::span(in));
  flock.until_done(receive);
  EXPECT_NE(error_of([&] {
              receive.await_resume();
            }).find("rank 0 sent 40 bytes in a pairwise exchange where 44 were expected"),
            std::string::npos);
}

TEST(Mesh, ExplainsMessagesThatDoNotFit) {
  Flock flock(2);
  std::vector<float> out(10), in(11);
  auto send = flock.comm(0).send(1, kOne, std::span(out));
  auto receive = flock.comm(1).receive(0, kOne.in("a pairwise exchange"), std::span(in));
  flock.until_done(receive);
  EXPECT_NE(error_of([&] {
              receive.await_resume();
            }).find("rank 0 sent 40 bytes in a pairwise exchange where 44 were expected"),
            std::string::npos);
}

}  // namespace
}  // namespace starling
