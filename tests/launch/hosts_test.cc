#include "launch/hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/error_of.h"

namespace starling {
namespace {

TEST(Hosts, AreReadWithTheirSlots) {
  EXPECT_EQ(parse_hosts("a:4,b,10.0.0.3:2"),
            (std::vector<HostSlots>{{"a", 4}, {"b", 1}, {"10.0.0.3", 2}}));
}

TEST(Hosts, WhatIsNoneIsRefused) {
  for (const char* wrong :
       {"", "a:", "a:0", "a:x", "a,,b", ":4", "a:4,", "-oProxyCommand=x:1", "a b"}) {
    EXPECT_NE(error_of([&] { parse_hosts(wrong); }).find("is no host:slots"), std::string::npos)
        << wrong;
  }
  EXPECT_EQ(error_of([] { parse_hosts("a:1,b,a:2"); }),
            "--hosts names a twice; give all of its slots at once");
}

TEST(Hosts, AreFilledInTheirOrder) {
  const std::vector<HostSlots> hosts = {{"a", 4}, {"b", 4}, {"c", 4}};
  EXPECT_EQ(filled(hosts, 6), (std::vector<HostSlots>{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(filled(hosts, 12), hosts);
  EXPECT_EQ(error_of([&] { filled(hosts, 13); }),
            "13 workers, and --hosts has 12 slots; name more hosts or slots, or fewer workers");
}

TEST(Hosts, OthersKnowThemWithoutTheUser) {
  EXPECT_EQ(name_for_others({"anna@a.example", 1}), "a.example");
  EXPECT_EQ(name_for_others({"10.0.0.3", 1}), "10.0.0.3");
}

TEST(Hosts, ThisMachineIsHere) {
  char own[256] = "";
  ASSERT_EQ(::gethostname(own, sizeof own - 1), 0);
  EXPECT_TRUE(is_here(own));
  EXPECT_TRUE(is_here("localhost"));
  EXPECT_FALSE(is_here("elsewhere"));
}

}  // namespace
}  // namespace starling
