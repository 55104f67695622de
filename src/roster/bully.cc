#include "roster/bully.h"

#include <vector>

#include "base/error.h"
#include "runtime/all.h"

namespace starling {

namespace {

enum class Word : std::uint32_t { election, answer, leader };

Task<> say(Group group, Channel channel, int peer, Word word) {
  co_await group.send(peer, channel, object_bytes(word));
}

// B. A lower rank that is lost needs no answer.
Task<> answer(Group group, Channel channel, int lower) {
  try {
    Word word{};
    co_await group.receive(lower, channel, object_bytes(word));
    co_await say(group, channel, lower, Word::answer);
  } catch (const PeerLost&) {
  }
}

// A.
Task<> ask(Group group, Channel channel, int higher, int& highest_to_answer) {
  try {
    co_await say(group, channel, higher, Word::election);
    Word word{};
    co_await group.receive(higher, channel, object_bytes(word));
    highest_to_answer = std::max(highest_to_answer, higher);
  } catch (const PeerLost&) {
  }
}

// C.
Task<> announce(Group group, Channel channel, int lower) {
  try {
    co_await say(group, channel, lower, Word::leader);
  } catch (const PeerLost&) {
  }
}

}  // namespace

Task<int> elect_leader(Group alive, Channel channel) {
  channel = channel.in("the election of a leader");
  int highest_to_answer = -1;
  std::vector<Task<>> talks;
  for (int peer = 0; peer < alive.size(); ++peer) {
    if (peer < alive.rank()) talks.push_back(answer(alive, channel, peer));
    if (peer > alive.rank()) talks.push_back(ask(alive, channel, peer, highest_to_answer));
  }
  co_await all(std::move(talks));

  if (highest_to_answer >= 0) {
    Word word{};
    co_await alive.receive(highest_to_answer, channel, object_bytes(word));
    co_return highest_to_answer;
  }
  for (int peer = 0; peer < alive.rank(); ++peer) co_await announce(alive, channel, peer);
  co_return alive.rank();
}

}  // namespace starling
