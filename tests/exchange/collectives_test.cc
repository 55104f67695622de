// Every collective beside the plain loop, for many sizes of group, kinds of group, lengths and element
// types.
#include "exchange/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "exchange/allreduce.h"
#include "runtime/all.h"
#include "tests/exchange/typed_values.h"
#include "tests/exchange/world.h"

namespace starling {
namespace {

constexpr Channel kChannel{1, Purpose::control};

Task<> nothing() { co_return; }

// Runs action(group, place) on the members; returns the places of which the outcome is known here.
template <class Action>
std::vector<std::size_t> run_in(const SomeRanks& some, const Action& action) {
  World world(some.world);
  world.run([&](Comm& comm) {
    const Group group(comm, some.ranks, 3);
    return group.rank() < 0 ? nothing() : action(group, static_cast<std::size_t>(group.rank()));
  });
  std::vector<std::size_t> places;
  for (const std::size_t rank : world.known()) {
    const auto found = std::ranges::find(some.ranks, static_cast<int>(rank));
    if (found == some.ranks.end()) continue;
    places.push_back(static_cast<std::size_t>(found - some.ranks.begin()));
  }
  return places;
}
bool contains(const std::vector<std::size_t>& places, int place) {
  return std::ranges::find(places, static_cast<std::size_t>(place)) != places.end();
}

// Calls check(some) for groups of many sizes, of everybody and of some.
template <class Check>
void for_many_groups(const Check& check) {
  for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 13}) {
    for (const SomeRanks& some : {everybody(n), every_second_backwards(n)}) {
      SCOPED_TRACE(testing::Message() << n << " of " << some.world);
      if (World::can_have(some.world)) check(some);
    }
  }
}

// Lengths that end in the middle of everything; 300,001 bytes are more than a segment.
constexpr std::size_t kLengths[] = {0, 1, 77, 300'001};

// The plain loop.
TypedValues reduced(std::vector<TypedValues> all, Reduction reduction) {
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    combine(all[0].vector(), all[rank].vector(), reduction);
  }
  return all[0];
}

class EveryAllreduce : public testing::TestWithParam<NamedAllreduce> {};

TEST_P(EveryAllreduce, ReducesEveryTypeAsThePlainLoop) {
  for (const Element type : all_elements()) {
    for (std::size_t r = 0; r < kReductionNames.size(); ++r) {
      const auto reduction = static_cast<Reduction>(r);
      if (type == Element::boolean && reduction == Reduction::mean) continue;
      if (type <= Element::bf16 && reduction >= Reduction::bits_and) continue;  // no bits
      for_many_groups([&](const SomeRanks& some) {
        const int n = static_cast<int>(some.ranks.size());
        for (std::size_t length : kLengths) {
          if (length > 1000 && (n != 3 || reduction != Reduction::sum)) continue;
          auto all = values_of_all(type, length, n);
          TypedValues expected = reduced(all, reduction);
          conclude(expected.vector(), reduction, n);
          const auto known = run_in(some, [&](Group group, std::size_t place) {
            return allreduce(GetParam().run, group, kChannel, all[place].vector(), reduction);
          });
          for (const std::size_t place : known) {
            ASSERT_EQ(all[place], expected)
                << kReductionNames[r] << " of " << length << " " << info(type).name;
          }
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryAllreduce, testing::ValuesIn(kAllreduces), [](const auto& test) {
  std::string name(test.param.name);
  std::ranges::replace(name, '-', '_');
  return name;
});

class EveryType : public testing::TestWithParam<Element> {
 protected:
  static Element type() { return GetParam(); }
};

TEST_P(EveryType, IsBroadcastFromAnyRoot) {
  for_many_groups([](const SomeRanks& some) {
    const int n = static_cast<int>(some.ranks.size());
    for (int root : {0, n / 2, n - 1}) {
      for (std::size_t length : kLengths) {
        if (length > 1000 && n != 5) continue;
        auto all = values_of_all(type(), length, n);
        const TypedValues expected = all[static_cast<std::size_t>(root)];
        const auto known = run_in(some, [&](Group group, std::size_t place) {
          return broadcast(group, kChannel, all[place].vector(), root);
        });
        for (const std::size_t place : known) {
          ASSERT_EQ(all[place], expected) << length << " from " << root;
        }
      }
    }
  });
}

TEST_P(EveryType, IsReducedToAnyRoot) {
  for_many_groups([](const SomeRanks& some) {
    const int n = static_cast<int>(some.ranks.size());
    for (int root : {0, n / 2, n - 1}) {
      for (std::size_t length : kLengths) {
        if (length > 1000 && n != 5) continue;
        auto all = values_of_all(type(), length, n);
        const TypedValues expected = reduced(all, Reduction::max);
        const auto known = run_in(some, [&](Group group, std::size_t place) {
          return reduce(group, kChannel, all[place].vector(), Reduction::max, root);
        });
        if (!contains(known, root)) continue;
        ASSERT_EQ(all[static_cast<std::size_t>(root)], expected) << length << " to " << root;
      }
    }
  });
}

Task<> broadcast_a_number(Group group, int root) {
  int number = 0;
  co_await broadcast(group, kChannel, std::span(&number, 1), root);
}

TEST(Broadcast, ReachesNobodyTwiceAndNotTheRoot) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    for (int root = 0; root < size; ++root) {
      if (!World::can_have(size)) continue;
      World world(size);
      world.run([&](Comm& comm) { return broadcast_a_number(comm, root); });
      std::uint64_t sent = 0;
      for (const std::uint64_t each : world.bytes_sent()) sent += each;
      EXPECT_EQ(sent, sizeof(int) * static_cast<std::uint64_t>(size - 1)) << size << " " << root;
    }
  }
}

// Pieces of 0, 1, 2 ... times `unit`, or of equal length.
std::vector<Range> pieces_of(int n, std::size_t unit, bool even) {
  std::vector<Range> pieces;
  std::size_t begin = 0;
  for (int rank = 0; rank < n; ++rank) {
    const std::size_t size = even ? unit : static_cast<std::size_t>(rank) * unit;
    pieces.push_back({begin, begin + size});
    begin += size;
  }
  return pieces;
}
Vector piece(TypedValues& values, const Range& range) {
  return values.vector().subspan(range.begin, range.size());
}
void copy(Vector from, Vector to) { std::ranges::copy(from.bytes(), to.bytes().begin()); }

// Calls check(some, pieces) with even and uneven pieces.
template <class Check>
void for_many_pieces(const Check& check) {
  for_many_groups([&](const SomeRanks& some) {
    const int n = static_cast<int>(some.ranks.size());
    for (const bool even : {true, false}) {
      for (std::size_t unit : {0u, 1u, 7u, 70'001u}) {
        if (unit > 1000 && n != 3) continue;
        SCOPED_TRACE(testing::Message() << (even ? "even" : "uneven") << " pieces of " << unit);
        check(some, pieces_of(n, unit, even));
      }
    }
  });
}

TEST_P(EveryType, IsReducedAndScattered) {
  for_many_pieces([](const SomeRanks& some, const std::vector<Range>& pieces) {
    auto all = values_of_all(type(), pieces.back().end, static_cast<int>(pieces.size()));
    TypedValues expected = reduced(all, Reduction::sum);
    const auto known = run_in(some, [&](Group group, std::size_t place) {
      return reduce_scatter(group, kChannel, all[place].vector(), pieces, Reduction::sum);
    });
    for (const std::size_t rank : known) {
      const Vector got = piece(all[rank], pieces[rank]), wanted = piece(expected, pieces[rank]);
      ASSERT_TRUE(std::ranges::equal(got.bytes(), wanted.bytes())) << rank;
    }
  });
}

TEST_P(EveryType, IsGatheredByAllByOneAndScattered) {
  for_many_pieces([](const SomeRanks& some, const std::vector<Range>& pieces) {
    const int n = static_cast<int>(pieces.size());
    TypedValues whole = TypedValues::of_rank(type(), pieces.back().end, 99);
    auto all = values_of_all(type(), pieces.back().end, n);
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      copy(piece(whole, pieces[rank]), piece(all[rank], pieces[rank]));
    }
    const auto before = all;
    const auto known = run_in(some, [&](Group group, std::size_t place) {
      return all_gather(group, kChannel, all[place].vector(), pieces);
    });
    for (const std::size_t place : known) ASSERT_EQ(all[place], whole);

    all = before;
    for (int root : {0, n - 1}) {
      TypedValues gathered(type(), pieces.back().end);
      run_in(some, [&](Group group, std::size_t place) {
        return gather(group, kChannel, piece(all[place], pieces[place]),
                      group.rank() == root ? gathered.vector() : Vector(), pieces, root);
      });
      if (contains(known, root)) {
        ASSERT_EQ(gathered, whole) << "to " << root;
      }

      std::vector<TypedValues> scattered;
      for (const Range& each : pieces) scattered.emplace_back(type(), each.size());
      run_in(some, [&](Group group, std::size_t place) {
        return scatter(group, kChannel, group.rank() == root ? whole.vector() : Vector(), pieces,
                       scattered[place].vector(), root);
      });
      for (const std::size_t rank : known) {
        const Vector got = scattered[rank].vector(), wanted = piece(whole, pieces[rank]);
        ASSERT_TRUE(std::ranges::equal(got.bytes(), wanted.bytes())) << rank << " from " << root;
      }
    }
  });
}

// Rank a sends rank b a + 2 b + unit elements, or always as many.
TEST_P(EveryType, GoesFromAllToAll) {
  for_many_groups([](const SomeRanks& some) {
    const auto n = some.ranks.size();
    for (const bool even : {true, false}) {
      for (std::size_t unit : {0u, 3u, 70'001u}) {
        if (unit > 1000 && n != 3) continue;
        const auto length = [&](std::size_t a, std::size_t b) {
          return even ? unit : unit + a + 2 * b;
        };
        std::vector<std::vector<Range>> out(n), in(n);
        std::vector<TypedValues> sent, got;
        for (std::size_t rank = 0; rank < n; ++rank) {
          std::size_t sends = 0, receives = 0;
          for (std::size_t other = 0; other < n; ++other) {
            out[rank].push_back({sends, sends + length(rank, other)});
            in[rank].push_back({receives, receives + length(other, rank)});
            sends = out[rank].back().end;
            receives = in[rank].back().end;
          }
          sent.push_back(TypedValues::of_rank(type(), sends, static_cast<int>(rank)));
          got.emplace_back(type(), receives);
        }
        const auto known = run_in(some, [&](Group group, std::size_t place) {
          return all_to_all(group, kChannel, sent[place].vector(), out[place], got[place].vector(),
                            in[place]);
        });
        for (const std::size_t to : known) {
          for (std::size_t from = 0; from < n; ++from) {
            const Vector here = piece(got[to], in[to][from]),
                         there = piece(sent[from], out[from][to]);
            ASSERT_TRUE(std::ranges::equal(here.bytes(), there.bytes())) << from << " to " << to;
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Each, EveryType, testing::ValuesIn(all_elements()), [](const auto& test) {
  return std::string(kElementTypes[static_cast<std::size_t>(test.param)].name);
});

TEST(EvenPieces, AreOfEqualLength) {
  std::vector<float> six(6);
  EXPECT_EQ(even_pieces(six, 3), (std::vector<Range>{{0, 2}, {2, 4}, {4, 6}}));
  EXPECT_EQ(even_pieces(Vector(), 2), (std::vector<Range>{{0, 0}, {0, 0}}));
}

Task<> come_late_to_a_barrier(Group group, std::vector<std::int64_t>& came) {
  const auto rank = static_cast<std::size_t>(group.rank());
  const Time late = std::chrono::milliseconds(10 * group.rank());
  co_await sleep_until(group.loop(), group.loop().now() + late);
  came[rank] = World::now(group.loop()).count();
  co_await barrier(group, kChannel);
  const std::int64_t left = World::now(group.loop()).count();
  std::vector<std::int64_t> of_all = came;
  const auto pieces = even_pieces(of_all, group.size());
  co_await all_gather(group, kChannel, of_all, pieces);
  EXPECT_GE(left, *std::ranges::max_element(of_all));
}

TEST(Barrier, LetsNobodyLeaveBeforeEverybodyCame) {
  for_many_groups([](const SomeRanks& some) {
    std::vector<std::int64_t> came(some.ranks.size());
    run_in(some, [&](Group group, std::size_t) { return come_late_to_a_barrier(group, came); });
  });
}

// Groups

Task<> side_by_side(std::vector<Task<>> exchanges) { co_await all(std::move(exchanges)); }

// Three groups of the same Comm that share ranks, on the same channel, at the same time.
TEST(Groups, ExchangeAtTheSameTimeWithoutHearingEachOther) {
  const std::vector<std::vector<int>> members = {{0, 1, 2, 3, 4, 5}, {5, 3, 1, 0}, {2, 3, 5}};
  for (const NamedAllreduce& algorithm : kAllreduces) {
    SCOPED_TRACE(algorithm.name);
    if (!World::can_have(6)) continue;
    World world(6, {{1e6, std::chrono::microseconds(50)}, {}});
    std::vector<std::vector<TypedValues>> values;
    std::vector<TypedValues> expected;
    for (std::size_t g = 0; g < members.size(); ++g) {
      values.push_back(values_of_all(Element::i32, 1000 + g, static_cast<int>(members[g].size())));
      expected.push_back(reduced(values.back(), Reduction::sum));
    }
    world.run([&](Comm& comm) {
      std::vector<Task<>> exchanges;
      for (std::size_t g = 0; g < members.size(); ++g) {
        const Group group(comm, members[g], static_cast<std::uint32_t>(g + 1));
        if (group.rank() < 0) continue;
        exchanges.push_back(algorithm.run(
            group, kChannel, values[g][static_cast<std::size_t>(group.rank())].vector(),
            Reduction::sum));
      }
      return side_by_side(std::move(exchanges));
    });
    for (std::size_t g = 0; g < members.size(); ++g) {
      for (const std::size_t rank : world.known()) {
        const auto place = std::ranges::find(members[g], static_cast<int>(rank));
        if (place == members[g].end()) continue;
        const auto& own = values[g][static_cast<std::size_t>(place - members[g].begin())];
        ASSERT_EQ(own, expected[g]) << "group " << g;
      }
    }
  }
}

}  // namespace
}  // namespace starling
