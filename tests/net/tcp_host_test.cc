#include "net/tcp_host.h"

#include <gtest/gtest.h>

#include "net/tcp_loop.h"
#include "tests/error_of.h"

namespace starling {
namespace {

// torchrun's MASTER_ADDR and Spark's tasks become such.
TEST(TcpHost, FindsAnAddressInBrackets) {
  TcpLoop loop;
  TcpHost host(loop);
  EXPECT_EQ(host.find("[::1]:29400"), host.find("::1:29400"));
  EXPECT_EQ(to_string(host.find("[::1]:29400")), "0:0:0:0:0:0:0:1");
  EXPECT_EQ(host.find("[::1]:29400").port, 29400u);
}

TEST(TcpHost, WantsAPort) {
  TcpLoop loop;
  TcpHost host(loop);
  EXPECT_EQ(error_of([&] { host.find("nowhere"); }),
            "the rendezvous 'nowhere' has no port; write it like 10.0.0.1:29400");
}

}  // namespace
}  // namespace starling
