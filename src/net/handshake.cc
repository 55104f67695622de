#include "net/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/error.h"
#include "net/socket_io.h"

namespace starling {

namespace {

using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

enum class Verdict : std::uint64_t {
  welcome,
  wrong_version,
  wrong_job,
  wrong_size,
  bad_rank,
  wrong_secret
};

std::string_view reason(Verdict verdict) {
  switch (verdict) {
    case Verdict::welcome:
      return "welcome";
    case Verdict::wrong_version:
      return "it speaks another protocol version; run the same Starling everywhere";
    case Verdict::wrong_job:
      return "it belongs to another job";
    case Verdict::wrong_size:
      return "its job has another number of workers";
    case Verdict::bad_rank:
      return "its rank cannot be";
    case Verdict::wrong_secret:
      return "it does not know this job's secret";
  }
  return "for no known reason";
}

struct Answer {
  Verdict verdict = Verdict::welcome;
  Nonce nonce{};
  Proof proof{};
};
static_assert(sizeof(Answer) + sizeof(Verdict) == kListenerHandshakeBytes);
static_assert(sizeof(Hello) + sizeof(Proof) == kCallerHandshakeBytes);

Nonce fresh_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), sizeof nonce) != 1) {
    throw Error("the system has no randomness to offer");
  }
  return nonce;
}

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

constexpr char kListener = 'L';
constexpr char kCaller = 'C';

}  // namespace

Task<> introduce(TcpLoop& loop, asio::ip::tcp::socket& socket, const Job& job, int to,
                 std::uint16_t listen_port) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(job.rank);
  hello.size = static_cast<std::uint32_t>(job.size);
  hello.listen_port = listen_port;
  hello.job_id = job.id;
  hello.nonce = fresh_nonce();
  co_await write_all(loop, socket, object_bytes(hello));

  Answer answer;
  co_await read_exactly(loop, socket, object_bytes(answer));
  if (answer.verdict != Verdict::welcome) {
    throw Error(fmt::format("rank {} refused rank {}: {}", to, job.rank, reason(answer.verdict)));
  }
  if (!same(answer.proof, prove(job, kListener, hello, answer.nonce))) {
    throw Error(
        fmt::format("what answers at the address of rank {} does not know this job's secret", to),
        "give all workers the same secret, or another port if a stranger listens there");
  }
  Proof proof = prove(job, kCaller, hello, answer.nonce);
  co_await write_all(loop, socket, object_bytes(proof));
  Verdict verdict{};
  co_await read_exactly(loop, socket, object_bytes(verdict));
  if (verdict != Verdict::welcome) {
    throw Error(fmt::format("rank {} refused rank {}: {}", to, job.rank, reason(verdict)));
  }
}

Task<Hello> examine(TcpLoop& loop, asio::ip::tcp::socket& socket, const Job& job) {
  Hello hello;
  co_await read_exactly(loop, socket, object_bytes(hello));
  if (hello.magic != Hello().magic) throw Error("it does not speak Starling's protocol");

  Answer answer;
  if (hello.version != kProtocolVersion) {
    answer.verdict = Verdict::wrong_version;
  } else if (hello.job_id != job.id) {
    answer.verdict = Verdict::wrong_job;
  } else if (hello.size != static_cast<std::uint32_t>(job.size)) {
    answer.verdict = Verdict::wrong_size;
  } else if (hello.rank >= hello.size || hello.rank <= static_cast<std::uint32_t>(job.rank)) {
    answer.verdict = Verdict::bad_rank;  // higher ranks call lower ones
  } else {
    answer.nonce = fresh_nonce();
    answer.proof = prove(job, kListener, hello, answer.nonce);
  }
  co_await write_all(loop, socket, object_bytes(answer));
  if (answer.verdict != Verdict::welcome) throw Error(std::string(reason(answer.verdict)));

  Proof proof;
  co_await read_exactly(loop, socket, object_bytes(proof));
  Verdict verdict = same(proof, prove(job, kCaller, hello, answer.nonce)) ? Verdict::welcome
                                                                          : Verdict::wrong_secret;
  co_await write_all(loop, socket, object_bytes(verdict));
  if (verdict != Verdict::welcome) throw Error(std::string(reason(verdict)));
  co_return hello;
}

}  // namespace starling
