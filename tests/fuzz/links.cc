// What comes over a link: from strangers, and from members that have gone mad.
#include "base/error.h"
#include "job/handshake.h"
#include "job/join.h"
#include "net/mesh.h"
#include "roster/message.h"
#include "runtime/race.h"
#include "sim/fleet.h"
#include "tests/chest.h"
#include "tests/fuzz/fuzz.h"

namespace starling {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPort = 29400;
constexpr Time kEnough = 60s;

Job job_of(int rank, int size) {
  Job job;
  job.rank = rank;
  job.size = size;
  job.rendezvous = "host 0:29400";
  job.secret = "a secret";
  job.terms = "lr = 0.1\n";
  job.timeout = 5s;
  job.encryption.links = Encryption::Links::none;
  return job;
}

Task<> swallow(Task<> task) {
  try {
    co_await task;
  } catch (const Error&) {
  }
}

// Two hosts, of which one gets what the other says; both may take what they like of it.
void converse(const std::function<Task<>(SimHost&)>& program) {
  Fleet fleet(2, {});
  const auto lives = fleet.run([&](SimHost& host) { return swallow(program(host)); }, kEnough);
  for (const Fleet::Life& life : lives) {
    if (life.error) std::rethrow_exception(life.error);
  }
}

Task<std::unique_ptr<Link>> be_called(SimHost& host, std::uint32_t port) {
  const std::unique_ptr<Listener> listener = host.listen({}, port);
  Task<Listener::Caller> accepting = listener->accept();
  Listener::Caller caller = co_await accepting;
  co_return std::move(caller.link);
}

Task<std::unique_ptr<Link>> call(SimHost& host, std::string where) {
  Task<Host::Answer> calling = host.call(host.find(where));
  Host::Answer answer = co_await calling;
  if (!answer.link) throw Error(answer.why);
  co_return std::move(answer.link);
}

// Says it, and stays until the other has gone.
Task<> say(SimHost& host, Link& link, ConstBytes words) {
  co_await write_all(host.loop(), link, words);
  std::array<std::byte, 64> ignored;
  while (true) co_await read_exactly(host.loop(), link, ignored);
}

Task<> shake_hands(SimHost& host, bool listens, ConstBytes words) {
  if (host.number() == 0) {
    Task<std::unique_ptr<Link>> calling = be_called(host, kPort);
    const std::unique_ptr<Link> link = co_await calling;
    if (!listens) co_return co_await say(host, *link, words);
    Task<Hello> hearing = hear_hello(host, *link);
    const Hello hello = co_await hearing;
    co_await examine(host, *link, job_of(0, 3), hello, "somewhere");
  } else {
    Task<std::unique_ptr<Link>> calling = call(host, "host 0:29400");
    const std::unique_ptr<Link> link = co_await calling;
    if (listens) co_return co_await say(host, *link, words);
    co_await introduce(host, *link, job_of(1, 3), 0, 40001);
  }
}

// Rank 0 is who it says, and then tells nonsense of the others.
Task<> join_with(SimHost& host, ConstBytes words) {
  if (host.number() == 0) {
    Task<std::unique_ptr<Link>> calling = be_called(host, kPort);
    const std::unique_ptr<Link> link = co_await calling;
    Task<Hello> hearing = hear_hello(host, *link);
    const Hello hello = co_await hearing;
    co_await examine(host, *link, job_of(0, 3), hello, "somewhere");
    co_await say(host, *link, words);
  } else {
    Task<Membership> joining = join_task(host, job_of(1, 3));
    co_await joining;
  }
}

Task<> receive_all(Mesh& mesh) {
  constexpr Channel kFixed{1, Purpose::weights, "a fixed one"};
  constexpr Channel kSized{2, Purpose::gradients, "a sized one"};
  while (true) {
    std::array<std::byte, 4> head;
    std::array<std::byte, 12> bytes;
    Chest chest;
    Receive fixed(mesh, 1, kFixed, bytes, head);
    Receive sized(mesh, 1, kSized, 1 << 20, chest, head);
    co_await fixed;
    co_await sized;
  }
}

Task<> hear_frames(SimHost& host, ConstBytes words) {
  if (host.number() == 0) {
    const std::unique_ptr<Listener> door = host.listen({}, 1);
    Task<std::unique_ptr<Link>> calling = be_called(host, kPort);
    std::vector<std::optional<Mesh::Peer>> peers(2);
    std::unique_ptr<Link> link = co_await calling;
    peers[1].emplace(Mesh::Peer{std::move(link), host.find("host 1:1"), 0, 0});
    Mesh mesh(host, 0, std::move(peers));
    co_await within(host.loop(), host.loop().now() + 30s, "listening", receive_all(mesh));
  } else {
    const std::unique_ptr<Listener> door = host.listen({}, 1);
    Task<std::unique_ptr<Link>> calling = call(host, "host 0:29400");
    const std::unique_ptr<Link> link = co_await calling;
    co_await say(host, *link, words);
  }
}

}  // namespace

void fuzz_handshake(ConstBytes input) {
  Pieces pieces(input);
  const bool listens = pieces.number() % 2 == 0;
  const ConstBytes words = pieces.rest();
  converse([&](SimHost& host) { return shake_hands(host, listens, words); });
}

void fuzz_frames(ConstBytes input) {
  converse([&](SimHost& host) { return hear_frames(host, input); });
}

// The roster of a job that begins, or what is asked at a door about the next one.
void fuzz_roster(ConstBytes input) {
  Pieces pieces(input);
  if (pieces.number() % 2 == 0) {
    const ConstBytes words = pieces.rest();
    return converse([&](SimHost& host) { return join_with(host, words); });
  }
  const ConstBytes bytes = pieces.rest();
  Message message;
  try {
    if (bytes.size() >= kMessageHeadBytes) bytes_behind(bytes.first(kMessageHeadBytes));
    message = decode(bytes);
  } catch (const Error&) {
    return;
  }
  const std::vector<std::byte> again = encode(message);
  if (encode(decode(again)) != again) throw std::logic_error("a message changes on its way");
}

}  // namespace starling
