#include "exchange/collect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/cluster.h"

namespace starling {
namespace {

constexpr Channel kChannel{1, Purpose::control};

std::vector<int> numbers_of(int rank, std::size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1000 * rank);
  return numbers;
}

TEST(Broadcast, BringsTheRootsBytesToEveryRank) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    for (int root = 0; root < size; ++root) {
      for (std::size_t count : {0u, 1u, 1001u}) {
        std::vector<std::vector<int>> numbers;
        for (int rank = 0; rank < size; ++rank) numbers.push_back(numbers_of(rank, count));
        Cluster cluster(size);
        cluster.run([&](Comm& comm) {
          auto& mine = numbers[static_cast<std::size_t>(comm.rank())];
          return broadcast(comm, kChannel, std::as_writable_bytes(std::span(mine)), root);
        });
        for (const auto& each : numbers) ASSERT_EQ(each, numbers_of(root, count)) << size;
      }
    }
  }
}

TEST(Broadcast, ReachesNobodyTwiceAndNotTheRoot) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    for (int root = 0; root < size; ++root) {
      Cluster cluster(size);
      cluster.run([&](Comm& comm) -> Task<> {
        return [](Comm& c, int from) -> Task<> {
          int number = 0;
          co_await broadcast(c, kChannel, object_bytes(number), from);
        }(comm, root);
      });
      std::uint64_t sent = 0;
      for (int rank = 0; rank < size; ++rank) {
        sent += cluster.comm(rank).ledger().total(Direction::sent).payload;
      }
      EXPECT_EQ(sent, sizeof(int) * static_cast<std::uint64_t>(size - 1)) << size << " " << root;
    }
  }
}

TEST(Gather, CollectsThePiecesInTheOrderOfRanks) {
  for (int size : {1, 2, 5, 8}) {
    const int root = size - 1;
    std::vector<std::vector<int>> pieces;
    for (int rank = 0; rank < size; ++rank) pieces.push_back(numbers_of(rank, 3));
    std::vector<int> all(3 * static_cast<std::size_t>(size));
    Cluster cluster(size);
    cluster.run([&](Comm& comm) {
      const auto& mine = pieces[static_cast<std::size_t>(comm.rank())];
      return gather(comm, kChannel, std::as_bytes(std::span(mine)),
                    comm.rank() == root ? std::as_writable_bytes(std::span(all)) : Bytes(), root);
    });
    for (int rank = 0; rank < size; ++rank) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(all[static_cast<std::size_t>(3 * rank + i)], 1000 * rank + i);
      }
    }
  }
}

TEST(AllGather, GivesEveryRankAllPieces) {
  for (int size : {1, 2, 3, 8, 13}) {
    const auto n = static_cast<std::size_t>(size);
    std::vector<std::vector<int>> all(n, std::vector<int>(n, -1));
    for (std::size_t rank = 0; rank < n; ++rank) all[rank][rank] = static_cast<int>(rank * rank);
    Cluster cluster(size);
    cluster.run([&](Comm& comm) {
      auto& mine = all[static_cast<std::size_t>(comm.rank())];
      return all_gather(comm, kChannel, std::as_writable_bytes(std::span(mine)));
    });
    for (const auto& each : all) {
      for (std::size_t rank = 0; rank < n; ++rank)
        EXPECT_EQ(each[rank], static_cast<int>(rank * rank));
    }
  }
}

Task<> come_late_to_a_barrier(Comm& comm, std::vector<Time>& came, std::vector<Time>& left) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  co_await sleep_until(comm.loop(), std::chrono::milliseconds(10 * comm.rank()));
  came[rank] = comm.loop().now();
  co_await barrier(comm, kChannel);
  left[rank] = comm.loop().now();
}

TEST(Barrier, LetsNobodyLeaveBeforeEverybodyCame) {
  for (int size : {1, 2, 3, 5, 8, 13}) {
    std::vector<Time> came(static_cast<std::size_t>(size)), left(came);
    Cluster cluster(size);
    cluster.run([&](Comm& comm) { return come_late_to_a_barrier(comm, came, left); });
    EXPECT_GE(*std::ranges::min_element(left), *std::ranges::max_element(came)) << size;
  }
}

}  // namespace
}  // namespace starling
