#include "net/tcp_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"

namespace starling {

TcpInfo tcp_info_of(int socket_fd) {
  constexpr int kEstablished = 1;  // TCP_ESTABLISHED, which only netinet/tcp.h names
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(socket_fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    throw Error("the kernel tells nothing about a socket");
  }
  return {info.tcpi_state == kEstablished, info.tcpi_bytes_sent - info.tcpi_bytes_retrans,
          info.tcpi_bytes_received, info.tcpi_bytes_acked,
          info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0};
}

}  // namespace starling
