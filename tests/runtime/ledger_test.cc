#include "runtime/ledger.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Ledger, StartsEmpty) {
  const Ledger ledger;
  EXPECT_EQ(ledger.count(2, Direction::sent, Purpose::weights), ByteCount{});
  EXPECT_EQ(ledger.total(Direction::sent), ByteCount{});
  EXPECT_EQ(ledger.total(Direction::received), ByteCount{});
}

TEST(Ledger, KeepsPeersDirectionsAndPurposesApart) {
  Ledger ledger;
  std::uint64_t amount = 1;  // a different power of two everywhere: no sum can hide a mistake
  for (int peer = 0; peer < 3; ++peer) {
    for (Direction direction : {Direction::sent, Direction::received}) {
      for (std::size_t purpose = 0; purpose < kPurposeNames.size(); ++purpose) {
        ledger.add(peer, direction, static_cast<Purpose>(purpose), {amount, 3 * amount});
        amount *= 2;
      }
    }
  }
  amount = 1;
  for (int peer = 0; peer < 3; ++peer) {
    for (Direction direction : {Direction::sent, Direction::received}) {
      for (std::size_t purpose = 0; purpose < kPurposeNames.size(); ++purpose) {
        EXPECT_EQ(ledger.count(peer, direction, static_cast<Purpose>(purpose)),
                  (ByteCount{amount, 3 * amount}));
        amount *= 2;
      }
    }
  }
}

TEST(Ledger, CountsEveryPurposeInItsTotals) {
  Ledger ledger;
  for (int peer = 0; peer < 2; ++peer) {
    std::uint64_t amount = peer == 0 ? 1 : 100;
    for (std::size_t purpose = 0; purpose < kPurposeNames.size(); ++purpose, amount *= 2) {
      ledger.add(peer, Direction::sent, static_cast<Purpose>(purpose), {amount, 3 * amount});
    }
  }
  EXPECT_EQ(ledger.total(Direction::sent, Purpose::control), (ByteCount{101, 303}));
  EXPECT_EQ(ledger.total_with(0, Direction::sent), (ByteCount{63, 189}));
  EXPECT_EQ(ledger.total_with(1, Direction::sent), (ByteCount{6300, 18900}));
  EXPECT_EQ(ledger.total(Direction::sent), (ByteCount{6363, 19089}));
  EXPECT_EQ(ledger.total_with(1, Direction::received), ByteCount{});
}

TEST(Ledger, SumsWhatIsAddedTwiceAndOverPeersAndPurposes) {
  Ledger ledger;
  ledger.add(0, Direction::sent, Purpose::weights, {1, 17});
  ledger.add(0, Direction::sent, Purpose::weights, {10, 26});
  ledger.add(2, Direction::sent, Purpose::weights, {100, 116});
  ledger.add(1, Direction::sent, Purpose::gradients, {1000, 1016});
  ledger.add(1, Direction::received, Purpose::weights, {5, 21});
  EXPECT_EQ(ledger.count(0, Direction::sent, Purpose::weights), (ByteCount{11, 43}));
  EXPECT_EQ(ledger.total(Direction::sent, Purpose::weights), (ByteCount{111, 159}));
  EXPECT_EQ(ledger.total(Direction::sent, Purpose::control), (ByteCount{0, 0}));
  EXPECT_EQ(ledger.total(Direction::sent), (ByteCount{1111, 1175}));
  EXPECT_EQ(ledger.total(Direction::received), (ByteCount{5, 21}));
}

}  // namespace
}  // namespace starling
