#include "net/own_address.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/error_of.h"

namespace starling {
namespace {

asio::ip::address ip(const char* text) { return asio::ip::make_address(text); }

TEST(OwnAddress, IsFoundByInterfaceAndBySubnet) {
  const std::vector<OwnAddress> addresses = {{"lo", ip("127.0.0.1")},
                                             {"eth0", ip("10.0.0.7")},
                                             {"eth1", ip("10.0.1.7")},
                                             {"ib0", ip("fd00::7")}};
  EXPECT_EQ(address_on("eth1", addresses), ip("10.0.1.7"));
  EXPECT_EQ(address_on("10.0.1.0/24", addresses), ip("10.0.1.7"));
  EXPECT_EQ(address_on("10.0.1.7/32", addresses), ip("10.0.1.7"));
  EXPECT_EQ(address_on("fd00::/16", addresses), ip("fd00::7"));
  EXPECT_FALSE(address_on("10.0.2.0/24", addresses));
  EXPECT_FALSE(address_on("eth", addresses));
  EXPECT_FALSE(address_on("10.0.1.0/99", addresses));
}

TEST(OwnAddress, OfThisMachine) {
  EXPECT_EQ(own_address_on("lo"), ip("127.0.0.1"));
  EXPECT_EQ(own_address_on("127.0.0.0/8"), ip("127.0.0.1"));
  EXPECT_EQ(own_address_towards(ip("127.0.0.1")), "127.0.0.1");
}

TEST(OwnAddress, WhatThereIsStandsInTheError) {
  const std::string error = error_of([] { own_address_on("eth77"); });
  EXPECT_NE(error.find("is not on the network eth77, it has "), std::string::npos) << error;
  EXPECT_NE(error.find("lo 127.0.0.1"), std::string::npos) << error;
}

}  // namespace
}  // namespace starling
