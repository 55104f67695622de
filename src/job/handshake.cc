#include "job/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "base/error.h"

namespace starling {

namespace {

using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

enum class Verdict : std::uint64_t {
  welcome,
  wrong_version,
  wrong_listener,
  bad_rank,
  wrong_secret,
  other_terms
};

std::string_view reason(Verdict verdict) {
  switch (verdict) {
    case Verdict::welcome:
      return "welcome";
    case Verdict::wrong_version:
      return "it speaks another protocol version; run the same Starling everywhere";
    case Verdict::wrong_listener:
      return "it wanted another rank";
    case Verdict::bad_rank:
      return "its rank cannot be";
    case Verdict::wrong_secret:
      return "it does not know this job's secret; give every machine the same secret";
    case Verdict::other_terms:
      return "it has other settings";
  }
  return "for no known reason";
}

struct Challenge {
  Verdict verdict = Verdict::welcome;
  Nonce nonce{};
};
struct Confirmation {
  Verdict verdict = Verdict::welcome;
  Proof proof{};
};
static_assert(sizeof(Challenge) + sizeof(Confirmation) == kListenerHandshakeBytes);
static_assert(sizeof(Hello) + sizeof(Proof) == kCallerHandshakeBytes);

Proof prove(const Job& job, char label, const Hello& hello, const Nonce& nonce) {
  std::array<std::byte, 1 + sizeof(Hello) + sizeof(Nonce)> text;
  text[0] = static_cast<std::byte>(label);
  const auto hello_bytes = std::as_bytes(std::span(&hello, 1));
  std::copy(nonce.begin(), nonce.end(),
            std::copy(hello_bytes.begin(), hello_bytes.end(), text.begin() + 1));
  Proof proof;
  unsigned length = 0;
  HMAC(EVP_sha256(), job.secret.data(), static_cast<int>(job.secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(proof.data()), &length);
  return proof;
}

bool same(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), sizeof a) == 0;
}

// Where both sides know that their terms differ. The caller speaks first: two that both write and
// do not read may wait for each other.
Task<> send_terms(Host& host, Link& link, const std::string& terms) {
  auto length = static_cast<std::uint32_t>(terms.size());
  co_await write_all(host.loop(), link, object_bytes(length));
  co_await write_all(host.loop(), link, std::as_bytes(std::span(terms)));
}
Task<std::string> read_terms(Host& host, Link& link) {
  std::uint32_t length = 0;
  co_await read_exactly(host.loop(), link, object_bytes(length));
  if (length > kMostTermsBytes) throw Error("its settings are longer than they can be");
  std::string terms(length, '\0');
  co_await read_exactly(host.loop(), link, std::as_writable_bytes(std::span(terms)));
  co_return terms;
}

Disagreement disagreement(int rank, const std::string& where, const std::string& theirs,
                          const Job& job) {
  const Difference differs = difference(theirs, terms_of(job));
  if (differs.theirs.empty()) {
    return Disagreement(rank, fmt::format("rank {}{} is of a job of another size than rank {}",
                                          rank, where, job.rank));
  }
  return Disagreement(rank, fmt::format("rank {}{} has {}, and rank {} has {}", rank, where,
                                        differs.theirs, job.rank, differs.ours));
}

constexpr char kListener = 'L';
constexpr char kCaller = 'C';

}  // namespace

Task<> introduce(Host& host, Link& link, const Job& job, int to, std::uint32_t listen_port) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(job.rank);
  hello.to = static_cast<std::uint32_t>(to);
  hello.size = static_cast<std::uint32_t>(job.size);
  hello.listen_port = listen_port;
  host.draw(hello.nonce);
  hello.terms = digest_of(terms_of(job));
  co_await write_all(host.loop(), link, object_bytes(hello));

  const auto check = [&](Verdict verdict) {
    if (verdict == Verdict::welcome || verdict == Verdict::other_terms) return;
    throw Error(fmt::format("rank {} refused rank {}: {}", to, job.rank, reason(verdict)));
  };
  Challenge challenge;
  co_await read_exactly(host.loop(), link, object_bytes(challenge));
  check(challenge.verdict);

  Proof proof = prove(job, kCaller, hello, challenge.nonce);
  co_await write_all(host.loop(), link, object_bytes(proof));
  Confirmation confirmation;
  co_await read_exactly(host.loop(), link, object_bytes(confirmation));
  check(confirmation.verdict);
  if (!same(confirmation.proof, prove(job, kListener, hello, challenge.nonce))) {
    throw Error(
        fmt::format("what answers at the address of rank {} does not know this job's secret", to),
        "give all workers the same secret, or another port if a stranger listens there");
  }
  if (confirmation.verdict == Verdict::welcome) co_return;
  co_await send_terms(host, link, terms_of(job));
  Task<std::string> reading = read_terms(host, link);
  const std::string theirs = co_await reading;
  throw disagreement(to, to == 0 ? fmt::format(" at {}", job.rendezvous) : "", theirs, job);
}

Task<Hello> hear_hello(Host& host, Link& link) {
  Hello hello;
  constexpr std::size_t kForAllVersions = offsetof(Hello, rank);
  co_await read_exactly(host.loop(), link, object_bytes(hello).first(kForAllVersions));
  constexpr char kHandshakeOfTls = 0x16;
  if (hello.magic[0] == kHandshakeOfTls) {
    throw Error("it encrypts, and we do not", "give all machines the same --tls");
  }
  if (hello.magic != Hello().magic) throw Error("it does not speak Starling's protocol");
  if (hello.version != kProtocolVersion) co_return hello;
  co_await read_exactly(host.loop(), link, object_bytes(hello).subspan(kForAllVersions));
  co_return hello;
}

Task<> examine(Host& host, Link& link, const Job& job, const Hello& hello, std::string from) {
  Challenge challenge;
  if (hello.version != kProtocolVersion) {
    challenge.verdict = Verdict::wrong_version;
  } else if (hello.to != static_cast<std::uint32_t>(job.rank)) {
    challenge.verdict = Verdict::wrong_listener;
  } else if (hello.rank >= hello.size || hello.rank <= hello.to) {
    challenge.verdict = Verdict::bad_rank;  // higher ranks call lower ones
  } else {
    host.draw(challenge.nonce);
  }
  co_await write_all(host.loop(), link, object_bytes(challenge));
  if (challenge.verdict != Verdict::welcome) throw Error(std::string(reason(challenge.verdict)));

  Proof proof;
  co_await read_exactly(host.loop(), link, object_bytes(proof));
  Confirmation confirmation;
  if (same(proof, prove(job, kCaller, hello, challenge.nonce))) {
    const bool alike = hello.terms == digest_of(terms_of(job)) &&
                       hello.size == static_cast<std::uint32_t>(job.size);
    if (!alike) confirmation.verdict = Verdict::other_terms;
    confirmation.proof = prove(job, kListener, hello, challenge.nonce);
  } else {
    confirmation.verdict = Verdict::wrong_secret;
  }
  co_await write_all(host.loop(), link, object_bytes(confirmation));
  if (confirmation.verdict == Verdict::welcome) co_return;
  if (confirmation.verdict == Verdict::wrong_secret) {
    throw Error(std::string(reason(confirmation.verdict)));
  }
  Task<std::string> reading = read_terms(host, link);
  const std::string theirs = co_await reading;
  co_await send_terms(host, link, terms_of(job));
  throw disagreement(static_cast<int>(hello.rank), fmt::format(" on {}", from), theirs, job);
}

}  // namespace starling
