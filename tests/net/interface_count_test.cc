#include "net/interface_count.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

namespace starling {
namespace {

// A datagram to a port of our own, over loopback: what is sent there is received there.
void send_to_ourselves(std::size_t bytes) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(socket, generic, sizeof address), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(::getsockname(socket, generic, &length), 0);
  const std::vector<char> text(bytes);
  ASSERT_EQ(::sendto(socket, text.data(), bytes, 0, generic, length), static_cast<ssize_t>(bytes));
  ::close(socket);
}

TEST(InterfaceCount, GrowsByWhatIsSentAndReceived) {
  const auto before = own_interface_count("lo");
  ASSERT_TRUE(before);
  send_to_ourselves(10'000);
  const auto after = own_interface_count("lo");
  ASSERT_TRUE(after);
  EXPECT_GE(after->sent_bytes - before->sent_bytes, 10'000u);
  EXPECT_GE(after->received_bytes - before->received_bytes, 10'000u);
}

TEST(InterfaceCount, IsOfNothingWhereThereIsNoSuchInterface) {
  EXPECT_FALSE(own_interface_count(""));
  EXPECT_FALSE(own_interface_count("l"));
  EXPECT_FALSE(own_interface_count("nonsense0"));
}

}  // namespace
}  // namespace starling
