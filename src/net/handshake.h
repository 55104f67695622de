// How two ranks make sure of each other before a connection counts:
//
//   A. The caller sends a Hello: protocol version, job id, its rank, the job's size, its listening
//      port, a nonce.
//   B. The listener answers with a verdict and a nonce of its own, and proves that it knows the
//      secret: HMAC-SHA256 over both nonces and the hello. The secret itself never travels.
//   C. The caller checks that proof and sends its own, over the same bytes with another label.
//   D. The listener checks it in constant time and confirms.
//
// Everything has a fixed size and one deadline, so a stranger can neither make us allocate nor
// wait.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>

#include "net/job.h"
#include "net/tcp_loop.h"
#include "runtime/task.h"

namespace starling {

inline constexpr std::uint32_t kProtocolVersion = 1;

struct Hello {
  std::array<char, 8> magic = {'S', 'T', 'A', 'R', 'L', 'I', 'N', 'G'};
  std::uint32_t version = kProtocolVersion;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t listen_port = 0;
  std::uint64_t job_id = 0;
  std::array<std::byte, 16> nonce{};
};
static_assert(sizeof(Hello) == 48);

inline constexpr std::uint64_t kCallerHandshakeBytes = sizeof(Hello) + 32;
inline constexpr std::uint64_t kListenerHandshakeBytes = (8 + 16 + 32) + 8;

// The caller's side; throws Error with the reason if the other end is not the rank we want or
// refuses us.
Task<> introduce(TcpLoop& loop, asio::ip::tcp::socket& socket, const Job& job, int to,
                 std::uint16_t listen_port);

// The listener's side; returns the caller's hello, or throws Error with the reason it was refused.
Task<Hello> examine(TcpLoop& loop, asio::ip::tcp::socket& socket, const Job& job);

}  // namespace starling
