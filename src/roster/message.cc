#include "roster/message.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace starling {

namespace {

// What stands in front of the members and the guests.
struct Head {
  std::uint32_t magic = kMagic;
  Message::Kind kind{};
  std::uint32_t leaves = 0, stopped = 0;
  std::uint64_t step = 0;
  Ballot ballot, agreed_in;
  Member sender;
  std::uint64_t generation = 0, begins_after = 0;
  std::uint32_t members = 0, guests = 0;
  std::uint64_t missed = 0;
  std::array<std::byte, 32> terms{};
  std::uint64_t text_bytes = 0;

  static constexpr std::uint32_t kMagic = 0x52545352;  // "RSTR"
};
static_assert(sizeof(Head) == kMessageHeadBytes && std::is_trivially_copyable_v<Head>);

Head head_of(ConstBytes bytes) {
  if (bytes.size() < sizeof(Head)) throw Error("a word about the roster was cut short");
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != Head::kMagic || head.kind > Message::Kind::refused) {
    throw Error("what came was no word about the roster");
  }
  if (head.members > kMostMembers || head.guests > kMostMembers ||
      head.text_bytes > kMostTextBytes) {
    throw Error("a roster is longer than one can be");
  }
  return head;
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Head head;
  head.kind = message.kind;
  head.leaves = message.leaves;
  head.stopped = message.stopped;
  head.step = message.step;
  head.missed = message.missed;
  head.ballot = message.ballot;
  head.agreed_in = message.agreed_in;
  head.sender = message.sender;
  head.generation = message.roster.generation;
  head.begins_after = message.roster.begins_after;
  head.members = static_cast<std::uint32_t>(message.roster.members.size());
  head.guests = static_cast<std::uint32_t>(message.guests.size());
  head.terms = message.terms;
  head.text_bytes = message.text.size();
  std::vector<std::byte> bytes(sizeof head + bytes_behind(object_bytes(head)));
  auto out = std::ranges::copy(object_bytes(head), bytes.begin()).out;
  out = std::ranges::copy(std::as_bytes(std::span(message.roster.members)), out).out;
  out = std::ranges::copy(std::as_bytes(std::span(message.guests)), out).out;
  std::ranges::copy(std::as_bytes(std::span(message.text)), out);
  return bytes;
}

std::size_t bytes_behind(ConstBytes bytes) {
  const Head head = head_of(bytes);
  return (std::size_t{head.members} + head.guests) * sizeof(Member) + head.text_bytes;
}

Message decode(ConstBytes bytes) {
  const Head head = head_of(bytes);
  if (bytes.size() != sizeof head + bytes_behind(bytes)) {
    throw Error("a word about the roster was cut short");
  }
  Message message;
  message.kind = head.kind;
  message.leaves = head.leaves;
  message.stopped = head.stopped;
  message.step = head.step;
  message.missed = head.missed;
  message.ballot = head.ballot;
  message.agreed_in = head.agreed_in;
  message.sender = head.sender;
  message.roster.generation = head.generation;
  message.roster.begins_after = head.begins_after;
  message.roster.members.resize(head.members);
  message.guests.resize(head.guests);
  message.terms = head.terms;
  message.text.resize(head.text_bytes);
  ConstBytes rest = bytes.subspan(sizeof head);
  const auto take = [&](Bytes place) {
    if (!place.empty()) std::memcpy(place.data(), rest.data(), place.size());
    rest = rest.subspan(place.size());
  };
  take(std::as_writable_bytes(std::span(message.roster.members)));
  take(std::as_writable_bytes(std::span(message.guests)));
  take(std::as_writable_bytes(std::span(message.text)));
  const auto is_known = [](const Member& member) { return member.role <= Member::Role::server; };
  if (!is_known(message.sender) || !std::ranges::all_of(message.roster.members, is_known) ||
      !std::ranges::all_of(message.guests, is_known)) {
    throw Error("a roster has a member that neither works nor serves");
  }
  return message;
}

}  // namespace starling
