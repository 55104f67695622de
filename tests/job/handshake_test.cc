// Both sides of a handshake, and each of them alone against one who only pretends.
#include "job/handshake.h"

#include <gtest/gtest.h>

#include <asio/read.hpp>
#include <asio/write.hpp>

#include "base/error.h"
#include "job/join.h"
#include "runtime/all.h"
#include "tests/error_of.h"
#include "tests/net/borrowed_link.h"
#include "tests/net/patience.h"

namespace starling {
namespace {

using asio::ip::tcp;

constexpr std::size_t kChallengeBytes = 24;     // verdict, nonce
constexpr std::size_t kConfirmationBytes = 40;  // verdict, proof
constexpr const char* kWrongSecret =
    "it does not know this job's secret; give every machine the same secret";

// Two ends of one connection.
struct Ends {
  explicit Ends(TcpLoop& loop) : caller(loop.io()), listener(loop.io()) {
    tcp::acceptor acceptor = listen_on_loopback(loop);
    caller.connect(acceptor.local_endpoint());
    acceptor.accept(listener);
  }
  tcp::socket caller, listener;
  BorrowedLink from_caller{caller}, from_listener{listener};
};

Job job_of(int rank, std::string secret = "the secret of this test") {
  Job job;
  job.rank = rank;
  job.size = 4;
  job.secret = std::move(secret);
  return job;
}

Task<> note_outcome(Task<> side, std::string& outcome) {
  try {
    co_await side;
    outcome = "fine";
  } catch (const Error& error) {
    outcome = error.what();
  }
}

Task<> listen(Host& host, Link& link, const Job& job, Hello& hello) {
  Task<Hello> first = hear_hello(host, link);
  hello = co_await first;
  co_await examine(host, link, job, hello, "10.0.0.2");
}

struct Outcome {
  std::string caller, listener;
  Hello hello;
};

Outcome shake_hands(const Job& caller, int to, const Job& listener) {
  TcpLoop loop;
  TcpHost host(loop);
  Ends ends(loop);
  Outcome outcome;
  std::vector<Task<>> sides;
  sides.push_back(
      note_outcome(introduce(host, ends.from_caller, caller, to, 4711), outcome.caller));
  sides.push_back(
      note_outcome(listen(host, ends.from_listener, listener, outcome.hello), outcome.listener));
  loop.run(all(std::move(sides)));
  return outcome;
}

TEST(Handshake, MakesTwoRanksOfOneJobSureOfEachOther) {
  const Outcome outcome = shake_hands(job_of(3), 1, job_of(1));
  EXPECT_EQ(outcome.caller, "fine");
  EXPECT_EQ(outcome.listener, "fine");
  EXPECT_EQ(outcome.hello.rank, 3u);
  EXPECT_EQ(outcome.hello.listen_port, 4711u);
}

TEST(Handshake, FailsForBothIfTheirSecretsDiffer) {
  const Outcome outcome = shake_hands(job_of(3, "a guess"), 1, job_of(1));
  EXPECT_EQ(
      outcome.caller,
      "rank 1 refused rank 3: it does not know this job's secret; give every machine the same "
      "secret");
  EXPECT_EQ(outcome.listener, kWrongSecret);
}

Job with_terms(Job job, const std::string& terms) {
  job.terms = terms;
  return job;
}

TEST(Handshake, NamesToBothWhatTheyHaveNotAlike) {
  const Outcome outcome = shake_hands(with_terms(job_of(3), "epochs = 3\nlr = 0.9\nseed = 1\n"), 1,
                                      with_terms(job_of(1), "epochs = 3\nlr = 0.1\nseed = 1\n"));
  EXPECT_EQ(
      outcome.caller,
      "rank 1 has lr = 0.1, and rank 3 has lr = 0.9; start all machines with the same settings "
      "and the same Starling");
  EXPECT_EQ(outcome.listener,
            "rank 3 on 10.0.0.2 has lr = 0.9, and rank 1 has lr = 0.1; start all machines with the "
            "same settings and the same Starling");
}

TEST(Handshake, NamesAnotherNumberOfWorkers) {
  Job five = job_of(3);
  five.size = 5;
  const Outcome outcome = shake_hands(five, 1, job_of(1));
  EXPECT_TRUE(outcome.caller.starts_with("rank 1 has workers = 4, and rank 3 has workers = 5;"))
      << outcome.caller;
  EXPECT_TRUE(outcome.listener.starts_with("rank 3 on 10.0.0.2 has workers = 5, and rank 1 has"))
      << outcome.listener;
  // Whatever they say: a rank beyond the last one has no place.
  five.rank = 4;
  const Job alike = with_terms(job_of(1), "lr = 0.1\n");
  EXPECT_TRUE(
      shake_hands(with_terms(five, alike.terms), 1, alike)
          .listener.starts_with("rank 4 on 10.0.0.2 is of a job of another size than rank 1"));
}

TEST(Handshake, HearsNoTermsThatAreTooLong) {
  const std::string most(kMostTermsBytes - 100, 'x');
  EXPECT_TRUE(shake_hands(with_terms(job_of(3), most), 1, job_of(1))
                  .listener.starts_with("rank 3 on 10.0.0.2 has no workers and xxxxxxx"));
  EXPECT_EQ(error_of([] { terms_of(with_terms(job_of(3), std::string(kMostTermsBytes, 'x'))); }),
            "the settings take 65553 bytes; they may take 65536: shorten the names of files");

  // It knows the secret, and says that four billion bytes follow.
  TcpLoop loop;
  TcpHost host(loop);
  Ends ends(loop);
  Outcome outcome;
  const Job caller = with_terms(job_of(3), "lr = 0.9\n"), listener = job_of(1);
  const Running calling(
      note_outcome(introduce(host, ends.from_caller, caller, 1, 1), outcome.caller));
  Ends far(loop);  // between which the caller's length is made longer
  const Running listening(
      note_outcome(listen(host, far.from_listener, listener, outcome.hello), outcome.listener));
  const auto pass = [&](tcp::socket& from, tcp::socket& to, std::size_t bytes) {
    std::vector<std::byte> text(bytes);
    poll_until(loop, [&] { return from.available() >= bytes; });
    asio::read(from, asio::buffer(text));
    asio::write(to, asio::buffer(text));
  };
  pass(ends.listener, far.caller, sizeof(Hello));
  pass(far.caller, ends.listener, kChallengeBytes);
  pass(ends.listener, far.caller, 32);
  pass(far.caller, ends.listener, kConfirmationBytes);
  const std::uint32_t endless = ~0u;
  asio::write(far.caller, asio::buffer(&endless, sizeof endless));
  poll_until(loop, [&] { return listening.done(); });
  EXPECT_EQ(outcome.listener, "its settings are longer than they can be");
}

// Somebody between them may pass on every byte, but not to a rank that it was not meant for.
TEST(Handshake, IsWorthNothingBeforeAnotherRank) {
  const Outcome outcome = shake_hands(job_of(3), 2, job_of(1));
  EXPECT_EQ(outcome.caller, "rank 2 refused rank 3: it wanted another rank");
  EXPECT_EQ(outcome.listener, "it wanted another rank");
}

// One who listens in the place of rank 0 and says welcome to everything.
TEST(Handshake, TheCallerSeesThatTheListenerDoesNotKnowTheSecret) {
  TcpLoop loop;
  TcpHost host(loop);
  Ends ends(loop);
  std::string outcome;
  const Job job = job_of(1);
  const Running calling(note_outcome(introduce(host, ends.from_caller, job, 0, 1), outcome));
  Hello hello;
  const std::array<std::byte, kChallengeBytes> challenge{};
  const std::array<std::byte, kConfirmationBytes> confirmation{};
  asio::read(ends.listener, asio::buffer(&hello, sizeof hello));
  asio::write(ends.listener, asio::buffer(challenge));
  loop.poll();
  asio::write(ends.listener, asio::buffer(confirmation));
  poll_until(loop, [&] { return calling.done(); });
  EXPECT_EQ(outcome,
            "what answers at the address of rank 0 does not know this job's secret; give all "
            "workers the same secret, or another port if a stranger listens there");
}

// What the caller said is no proof when it is said back to it.
TEST(Handshake, TheCallerDoesNotTakeItsOwnProofForTheListeners) {
  TcpLoop loop;
  TcpHost host(loop);
  Ends ends(loop);
  std::string outcome;
  const Job job = job_of(1);
  const Running calling(note_outcome(introduce(host, ends.from_caller, job, 0, 1), outcome));
  Hello hello;
  std::array<std::byte, kChallengeBytes> challenge{};
  std::array<std::byte, kConfirmationBytes> confirmation{};
  asio::read(ends.listener, asio::buffer(&hello, sizeof hello));
  asio::write(ends.listener, asio::buffer(challenge));
  poll_until(loop, [&] { return ends.listener.available() > 0; });
  asio::read(ends.listener, asio::buffer(confirmation.data() + 8, 32));
  asio::write(ends.listener, asio::buffer(confirmation));
  poll_until(loop, [&] { return calling.done(); });
  EXPECT_TRUE(outcome.starts_with("what answers at the address of rank 0 does not know"));
}

// Somebody between a caller and a listener, who changes the hello as he likes, or the proof for one
// that he has heard before.
struct Between {
  std::string outcome;  // for the listener
  Hello hello;
  std::array<std::byte, 32> proof;
};
template <class Change>
Between pass_on(const Change& change, const std::array<std::byte, 32>* replayed = nullptr) {
  TcpLoop loop;
  TcpHost host(loop);
  Ends left(loop), right(loop);
  const Job caller = job_of(2), listener = job_of(1);
  std::string ignored;
  Hello heard;
  Between result;
  const Running calling(note_outcome(introduce(host, left.from_caller, caller, 1, 4711), ignored));
  const Running listening(
      note_outcome(listen(host, right.from_listener, listener, heard), result.outcome));
  asio::read(left.listener, asio::buffer(&result.hello, sizeof result.hello));
  Hello hello = result.hello;
  change(hello);
  asio::write(right.caller, asio::buffer(&hello, sizeof hello));
  std::array<std::byte, kChallengeBytes> challenge;
  poll_until(loop, [&] { return right.caller.available() == challenge.size(); });
  asio::read(right.caller, asio::buffer(challenge));
  asio::write(left.listener, asio::buffer(challenge));
  poll_until(loop, [&] { return left.listener.available() == result.proof.size(); });
  asio::read(left.listener, asio::buffer(result.proof));
  asio::write(right.caller, asio::buffer(replayed != nullptr ? *replayed : result.proof));
  poll_until(loop, [&] { return listening.done(); });
  return result;
}

TEST(Handshake, ProvesEveryWordOfTheHello) {
  EXPECT_EQ(pass_on([](Hello&) {}).outcome, "fine");
  EXPECT_EQ(pass_on([](Hello& hello) { hello.rank = 3; }).outcome, kWrongSecret);
  EXPECT_EQ(pass_on([](Hello& hello) { hello.listen_port = 1; }).outcome, kWrongSecret);
}

TEST(Handshake, AProofIsGoodForOneConversation) {
  const Between first = pass_on([](Hello&) {});
  const Between second = pass_on([&](Hello& hello) { hello = first.hello; }, &first.proof);
  EXPECT_EQ(first.outcome, "fine");
  EXPECT_EQ(second.outcome, kWrongSecret);
}

// One who calls without the secret gets nothing that was made with it.
TEST(Handshake, TheListenerProvesNothingToAStranger) {
  TcpLoop loop;
  TcpHost host(loop);
  Ends ends(loop);
  std::string outcome;
  Hello unused;
  const Job job = job_of(0);
  const Running listening(note_outcome(listen(host, ends.from_listener, job, unused), outcome));
  Hello hello;
  hello.rank = 2;
  hello.size = 4;
  asio::write(ends.caller, asio::buffer(&hello, sizeof hello));
  poll_until(loop, [&] { return ends.caller.available() > 0; });
  EXPECT_EQ(ends.caller.available(), kChallengeBytes) << "a verdict and a nonce, no more";
  std::array<std::byte, kChallengeBytes> challenge;
  asio::read(ends.caller, asio::buffer(challenge));
  const std::array<std::byte, 32> forged{};
  asio::write(ends.caller, asio::buffer(forged));
  poll_until(loop, [&] { return listening.done(); });
  EXPECT_EQ(outcome, kWrongSecret);
  std::array<std::byte, kConfirmationBytes> confirmation;
  asio::read(ends.caller, asio::buffer(confirmation));
  for (std::size_t i = 8; i < confirmation.size(); ++i) EXPECT_EQ(confirmation[i], std::byte{});
}

}  // namespace
}  // namespace starling
