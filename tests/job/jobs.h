// Jobs whose ranks meet on loopback.
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "job/session.h"

namespace starling {

inline std::vector<Job> jobs(int size, std::chrono::seconds timeout = std::chrono::seconds(20)) {
  TcpLoop sockets;
  asio::ip::tcp::acceptor listener = listen_on_loopback(sockets);
  std::vector<Job> all(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    Job& job = all[static_cast<std::size_t>(rank)];
    job.rank = rank;
    job.size = size;
    job.rendezvous = "127.0.0.1:" + std::to_string(listener.local_endpoint().port());
    job.secret = "a secret of sessions";
    job.timeout = timeout;
    if (rank == 0) job.listen_fd = ::dup(listener.native_handle());
  }
  return all;
}

}  // namespace starling
