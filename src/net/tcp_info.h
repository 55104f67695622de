// What the kernel says about a TCP socket. In a file of its own because linux/tcp.h, whose tcp_info
// counts bytes, cannot be included beside netinet/tcp.h, which Asio brings and whose tcp_info does
// not.
#pragma once

#include <cstdint>

namespace starling {

struct TcpInfo {
  bool established;
  std::uint64_t sent_bytes;  // without retransmissions
  std::uint64_t received_bytes;
  std::uint64_t acknowledged_bytes;
  bool awaits_answer;  // something is sent, or waits to be, that the peer has not acknowledged
};

// Throws Error if the kernel will not tell.
TcpInfo tcp_info_of(int socket_fd);

}  // namespace starling
