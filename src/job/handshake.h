// How two ranks make sure of each other before a connection counts:
//
//   A. The caller sends a Hello: protocol version, its rank, the rank it wants, the job's size, its
//      listening port, a nonce, a digest of its terms (job/terms.h).
//   B. The listener answers with a verdict on that and a nonce of its own.
//   C. The caller proves that it knows the job's secret: HMAC-SHA256 over the hello and the
//      listener's nonce. The secret itself never travels.
//   D. The listener checks that in constant time. Only then does it prove itself, over the same
//      bytes with another label, and the caller checks that.
//   E. Where their terms differ, the listener says so in D. Then the caller sends its own, the
//      listener answers with its own, and both end with one line on what is not alike.
//
// The hello names both ranks, so that a proof for one of them is worth nothing before another. The
// caller proves first, so that nobody can call us to get something to try guesses of the secret on.
// Who listens in a rank's place, or on the wire between two, still gets that: a secret must be one
// that cannot be guessed, like those that the launcher makes up.
//
// Everything up to E has a fixed size, and all of it one deadline, so a stranger can neither make us
// allocate nor wait; and who has proved to know the secret is heard for kMostTermsBytes at the most.
#pragma once

#include <array>
#include <cstdint>

#include "job/job.h"
#include "job/terms.h"
#include "runtime/host.h"

namespace starling {

inline constexpr std::uint32_t kProtocolVersion = 4;

// Magic and version stay where they are in all versions to come.
struct Hello {
  std::array<char, 8> magic = {'S', 'T', 'A', 'R', 'L', 'I', 'N', 'G'};
  std::uint32_t version = kProtocolVersion;
  std::uint32_t rank = 0;
  std::uint32_t to = 0;
  std::uint32_t size = 0;
  std::uint32_t listen_port = 0;
  std::array<std::byte, 16> nonce{};
  Digest terms{};
};
static_assert(sizeof(Hello) == 76);

inline constexpr std::uint64_t kCallerHandshakeBytes = sizeof(Hello) + 32;
inline constexpr std::uint64_t kListenerHandshakeBytes = (8 + 16) + (8 + 32);

// Two ranks of one job, each sure of the other, were not started alike: there will be no job.
class Disagreement : public Error {
 public:
  Disagreement(int rank, const std::string& what)
      : Error(what, "start all machines with the same settings and the same Starling"),
        rank_(rank) {}
  int rank() const { return rank_; }  // the other one's

 private:
  int rank_;
};

// The caller's side; throws Error with the reason if the other end is not the rank we want or
// refuses us, and Disagreement.
Task<> introduce(Host& host, Link& link, const Job& job, int to, std::uint32_t listen_port);

// The listener's side, in two steps, for whoever does not even say hello gets less patience. Both
// throw Error with the reason why the caller was refused, the second one also Disagreement; `from`
// is where the caller is, as people write it.
Task<Hello> hear_hello(Host& host, Link& link);
Task<> examine(Host& host, Link& link, const Job& job, const Hello& hello, std::string from);

}  // namespace starling
