// TLS over a link: who has the key is understood, who has not learns nothing. Pieces, delays and ends
// of every kind are in framing_seeds_test.cc and tests/job/join_seeds_test.cc.
#include "net/tls_link.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/temporary_folder.h"
#include "net/tcp_host.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "sim/switch.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// Two hosts with a link between them, one end of which is the listener's.
struct Pair {
  Pair() { loop.run(connect()); }

  Task<> connect() {
    listener = hub.host(1).listen({}, 100);
    Task<Host::Answer> calling = hub.host(0).call(hub.host(0).find("host 1:100"));
    Host::Answer answer = co_await calling;
    Task<Listener::Caller> accepting = listener->accept();
    Listener::Caller caller = co_await accepting;
    ends[0] = std::move(answer.link);
    ends[1] = std::move(caller.link);
  }
  std::unique_ptr<TlsLink> encrypt(int end, const TlsKeys& keys) {
    return std::make_unique<TlsLink>(loop, std::move(ends[static_cast<std::size_t>(end)]), keys,
                                     end == 0 ? TlsLink::Side::caller : TlsLink::Side::listener);
  }

  SimLoop loop;
  Switch hub{loop, 2, 7};
  std::unique_ptr<Listener> listener;
  std::array<std::unique_ptr<Link>, 2> ends;
};

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> text(bytes);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::byte>(i * 7 + i / 251);
  return text;
}

// How it ended, in words.
Task<> told(std::string& outcome, Task<> task) {
  try {
    co_await task;
    outcome = "well";
  } catch (const HungUp&) {
    outcome = "hung up";
  } catch (const Error& error) {
    outcome = error.what();
  }
}

std::array<std::string, 2> shake(Pair& pair, TlsLink& caller, TlsLink& listener) {
  std::array<std::string, 2> outcomes;
  std::vector<Task<>> both;
  both.push_back(told(outcomes[0], caller.shake_hands()));
  both.push_back(told(outcomes[1], listener.shake_hands()));
  pair.loop.run(within(pair.loop, pair.loop.now() + 60s, "the test", all(std::move(both))));
  return outcomes;
}

TEST(TlsLink, BringsBytesOfAnyLengthAndCountsWhatItAdds) {
  for (const std::size_t length : {1u, 15u, 16'383u, 16'384u, 16'385u, 500'000u}) {
    Pair pair;
    const TlsKeys keys("a secret of two");
    const auto caller = pair.encrypt(0, keys), listener = pair.encrypt(1, keys);
    EXPECT_EQ(shake(pair, *caller, *listener), (std::array<std::string, 2>{"well", "well"}));
    const std::int64_t of_handshake = caller->overhead_bytes(Direction::sent);
    EXPECT_GT(of_handshake, 100);
    EXPECT_EQ(of_handshake, listener->overhead_bytes(Direction::received));
    EXPECT_EQ(listener->overhead_bytes(Direction::sent),
              caller->overhead_bytes(Direction::received));

    const std::vector<std::byte> out = pattern(length);
    std::vector<std::byte> in(length);
    std::vector<Task<>> both;
    both.push_back(write_all(pair.loop, *caller, out));
    both.push_back(read_exactly(pair.loop, *listener, in));
    pair.loop.run(within(pair.loop, pair.loop.now() + 60s, "the test", all(std::move(both))));
    EXPECT_EQ(in, out);
    // A header, a byte for the type and a tag for each record, of 16 KB at the most.
    const auto records = static_cast<std::int64_t>((length + 16'383) / 16'384);
    EXPECT_GE(caller->overhead_bytes(Direction::sent), of_handshake + 22 * records);
    EXPECT_EQ(caller->overhead_bytes(Direction::sent),
              listener->overhead_bytes(Direction::received));
  }
}

TEST(TlsLink, ShowsNothingOfWhatItCarries) {
  Pair pair;
  const TlsKeys keys("a secret of two");
  const auto caller = pair.encrypt(0, keys);
  // The listener's end is read as it is, after a handshake through it.
  Link& wire = *pair.ends[1];
  const auto listener = pair.encrypt(1, keys);
  ASSERT_EQ(shake(pair, *caller, *listener)[1], "well");
  const std::vector<std::byte> out = pattern(1000);
  pair.loop.run(write_all(pair.loop, *caller, out));
  std::vector<std::byte> seen(1000 + 22);
  pair.loop.run(read_exactly(pair.loop, wire, seen));
  EXPECT_TRUE(std::ranges::search(seen, std::span(out).first(8)).empty());
}

TEST(TlsLink, LetsNobodyInWhoHasAnotherSecret) {
  Pair pair;
  const TlsKeys keys("a secret of two"), guess("a guess");
  const auto caller = pair.encrypt(0, guess), listener = pair.encrypt(1, keys);
  for (const std::string& outcome : shake(pair, *caller, *listener)) {
    EXPECT_NE(outcome.find("does not have this job's secret"), std::string::npos) << outcome;
  }
}

TEST(TlsLink, RefusesWhoDoesNotEncryptAndWhatWasChangedOnTheWay) {
  {
    Pair pair;
    const auto listener = pair.encrypt(1, TlsKeys("a secret of two"));
    const std::string plain = "STARLING, in plain words, for longer than a record's header";
    pair.loop.run(write_all(pair.loop, *pair.ends[0], std::as_bytes(std::span(plain))));
    std::string outcome;
    pair.loop.run(told(outcome, listener->shake_hands()));
    EXPECT_NE(outcome.find("does not encrypt"), std::string::npos) << outcome;
  }
  Pair pair;
  const TlsKeys keys("a secret of two");
  Link& wire = *pair.ends[0];
  const auto caller = pair.encrypt(0, keys), listener = pair.encrypt(1, keys);
  ASSERT_EQ(shake(pair, *caller, *listener)[0], "well");
  // A record of the right form by somebody without the key.
  std::vector<std::byte> forged(5 + 40, std::byte{0x5a});
  const std::array<unsigned char, 5> header = {23, 3, 3, 0, 40};
  std::ranges::transform(header, forged.begin(), [](unsigned char c) { return std::byte{c}; });
  pair.loop.run(write_all(pair.loop, wire, forged));
  std::vector<std::byte> in(1);
  EXPECT_THROW(pair.loop.run(read_exactly(pair.loop, *listener, in)), HungUp);
}

TEST(TlsLink, TellsAnEndFromABreak) {
  Pair pair;
  const TlsKeys keys("a secret of two");
  auto caller = pair.encrypt(0, keys);
  const auto listener = pair.encrypt(1, keys);
  ASSERT_EQ(shake(pair, *caller, *listener)[0], "well");
  const std::vector<std::byte> out = pattern(30);
  pair.loop.run(write_all(pair.loop, *caller, out));
  caller.reset();
  std::vector<std::byte> in(30);
  pair.loop.run(read_exactly(pair.loop, *listener, in));
  EXPECT_EQ(in, out);
  pair.loop.run(until_readable(pair.loop, *listener));
  EXPECT_EQ(listener->read_some(Bytes(in)).status, Link::Status::closed);
}

// Two ends on loopback, both of which are encrypted.
struct TcpPair {
  TcpPair() {
    asio::ip::tcp::acceptor acceptor = listen_on_loopback(loop);
    const auto port = acceptor.local_endpoint().port();
    auto listener = host.adopt(::dup(acceptor.native_handle()));
    loop.run(connect(*listener, host.find(fmt::format("127.0.0.1:{}", port))));
  }
  Task<> connect(Listener& listener, Address to) {
    Task<Host::Answer> calling = host.call(to);
    Host::Answer answer = co_await calling;
    Task<Listener::Caller> accepting = listener.accept();
    Listener::Caller accepted = co_await accepting;
    caller = std::make_unique<TlsLink>(loop, std::move(answer.link), keys, TlsLink::Side::caller);
    heard =
        std::make_unique<TlsLink>(loop, std::move(accepted.link), keys, TlsLink::Side::listener);
    std::vector<Task<>> both;
    both.push_back(caller->shake_hands());
    both.push_back(heard->shake_hands());
    co_await all(std::move(both));
  }

  TcpLoop loop;
  TcpHost host{loop};
  TlsKeys keys{"a secret of two"};
  std::unique_ptr<TlsLink> caller, heard;
};

// The socket has nothing more to say by then, so that it would never call back.
TEST(TlsLink, CallsWhoWaitsBackForWhatItHasReadAhead) {
  TcpPair pair;
  std::vector<std::byte> in(10);
  ASSERT_EQ(pair.heard->read_some(Bytes(in)).status, Link::Status::not_now);
  bool called = false;
  pair.heard->when_readable([&] { called = true; });
  write_at_once(*pair.caller, pattern(100));
  // It comes while the loop has something else to do.
  while (pair.heard->read_some(Bytes(in)).status == Link::Status::not_now) {
  }
  EXPECT_FALSE(called);
  pair.loop.run(sleep_until(pair.loop, pair.loop.now() + 50ms));
  EXPECT_TRUE(called);
}

class WithCertificates : public testing::Test {
 protected:
  // Those of an authority of that name, with a certificate for one machine.
  Certificates make(const std::string& name) {
    const auto file = [&](const char* what) { return (folder_.path() / (name + what)).string(); };
    const std::string command = fmt::format(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN={0} "
        "-keyout {1} -out {2} 2>/dev/null && "
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=machine "
        "-keyout {3} -out {4} 2>/dev/null && "
        "openssl x509 -req -in {4} -CA {2} -CAkey {1} -CAcreateserial -days 2 -out {5} 2>/dev/null",
        name, file("-ca-key.pem"), file("-ca.pem"), file("-key.pem"), file(".csr"), file(".pem"));
    EXPECT_EQ(std::system(command.c_str()), 0);
    return {file("-ca.pem"), file(".pem"), file("-key.pem")};
  }
  TemporaryFolder folder_;
};

TEST_F(WithCertificates, WhoHasOneOfTheSameAuthorityIsLetIn) {
  const Certificates ours = make("ours"), theirs = make("theirs");
  {
    Pair pair;
    const auto caller = pair.encrypt(0, TlsKeys(ours)), listener = pair.encrypt(1, TlsKeys(ours));
    EXPECT_EQ(shake(pair, *caller, *listener), (std::array<std::string, 2>{"well", "well"}));
  }
  Pair pair;
  const auto caller = pair.encrypt(0, TlsKeys(theirs)), listener = pair.encrypt(1, TlsKeys(ours));
  EXPECT_NE(shake(pair, *caller, *listener)[1], "well");
}

// It may pass over the key that is offered to it, and not even ask for ours.
TEST_F(WithCertificates, WhoHasASecretTakesNoneInItsPlace) {
  const TlsKeys ours("a secret of two"), of_stranger(make("theirs"));
  SSL_CTX_set_verify(&of_stranger.context(), SSL_VERIFY_NONE, nullptr);
  Pair pair;
  const auto caller = pair.encrypt(0, ours), listener = pair.encrypt(1, of_stranger);
  std::array<std::string, 2> outcomes;
  const Running listening(told(outcomes[1], listener->shake_hands()));
  pair.loop.run(told(outcomes[0], caller->shake_hands()));
  EXPECT_NE(outcomes[0].find("does not have this job's secret"), std::string::npos) << outcomes[0];
  EXPECT_NE(outcomes[1], "well");
}

TEST_F(WithCertificates, FilesThatAreNoneAreNamed) {
  const Certificates ours = make("ours");
  Certificates wrong = ours;
  wrong.key = ours.authority;
  try {
    TlsKeys{wrong};
    ADD_FAILURE() << "a certificate was taken for a key";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(ours.authority), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
