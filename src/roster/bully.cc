#include "roster/bully.h"

#include <vector>

#include "base/error.h"
#include "runtime/all.h"

namespace starling {

namespace {

enum class Word : std::uint32_t { election, answer, leader };

Task<> say(Comm& comm, Channel channel, int peer, Word word) {
  co_await comm.send(peer, channel, object_bytes(word));
}

// B. A lower rank that is lost needs no answer.
Task<> answer(Comm& comm, Channel channel, int lower) {
  try {
    Word word{};
    co_await comm.receive(lower, channel, object_bytes(word));
    co_await say(comm, channel, lower, Word::answer);
  } catch (const PeerLost&) {
  }
}

// A.
Task<> ask(Comm& comm, Channel channel, int higher, int& highest_to_answer) {
  try {
    co_await say(comm, channel, higher, Word::election);
    Word word{};
    co_await comm.receive(higher, channel, object_bytes(word));
    highest_to_answer = std::max(highest_to_answer, higher);
  } catch (const PeerLost&) {
  }
}

// C.
Task<> announce(Comm& comm, Channel channel, int lower) {
  try {
    co_await say(comm, channel, lower, Word::leader);
  } catch (const PeerLost&) {
  }
}

}  // namespace

Task<int> elect_leader(Comm& comm, Channel channel, std::span<const int> alive) {
  channel = channel.in("the election of a leader");
  int highest_to_answer = -1;
  std::vector<Task<>> talks;
  for (int peer : alive) {
    if (peer < comm.rank()) talks.push_back(answer(comm, channel, peer));
    if (peer > comm.rank()) talks.push_back(ask(comm, channel, peer, highest_to_answer));
  }
  co_await all(std::move(talks));

  if (highest_to_answer >= 0) {
    Word word{};
    co_await comm.receive(highest_to_answer, channel, object_bytes(word));
    co_return highest_to_answer;
  }
  for (int peer : alive) {
    if (peer < comm.rank()) co_await announce(comm, channel, peer);
  }
  co_return comm.rank();
}

}  // namespace starling
