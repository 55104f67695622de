// What is asked and answered at a member's door, about the roster. One question and one answer to a
// call.
#pragma once

#include <array>
#include <compare>
#include <string>
#include <vector>

#include "roster/roster.h"

namespace starling {

// Of a proposal: a later one overrides those before it.
struct Ballot {
  std::uint64_t round = 0;
  std::uint64_t proposer = 0;
  auto operator<=>(const Ballot&) const = default;
};

struct Message {
  enum class Kind : std::uint32_t {
    // Questions.
    assemble,  // the next generation is needed, and it is for you, who are lower, to propose it
    prepare,   // a proposal: will you hear no earlier one?
    accept,    // do you agree to this roster?
    decided,   // it is agreed on; as an answer: what you ask about has long been
    join,      // let me in
    describe,  // what are the settings of this job? answered in words
    leave,     // let the others go on without you
    knock,     // are you still there?
    ended,     // the work is done, without you
    // Answers.
    noted,     // nothing else to say, but this is the roster
    promised,  // and, if there was one, to which roster it has agreed before
    accepted,
    refused,  // it has promised to hear only that ballot and later ones
  };

  Kind kind = Kind::noted;
  std::uint32_t leaves = 0;   // promised: whether it wants to be left out
  std::uint32_t stopped = 0;  // promised: whether it can do nothing more in its generation
  std::uint64_t step = 0;     // promised: how many of its steps it has done
  std::uint64_t missed = 0;   // promised: whom it could not meet in its generation; 0: nobody
  Ballot ballot;              // of the proposal; refused: that was promised
  Ballot agreed_in;           // promised: in which ballot it has agreed before
  Member sender;
  Roster roster;                      // whose generation a question is about
  std::vector<Member> guests;         // promised: who waits to be let in
  std::array<std::byte, 32> terms{};  // join: a digest of what all must have alike
  std::string text;                   // in answer to describe
};
inline constexpr std::size_t kMostTextBytes = 1 << 16;

std::vector<std::byte> encode(const Message& message);
// How many bytes follow a head of kMessageHeadBytes; throws Error if it is none, or they are too many.
inline constexpr std::size_t kMessageHeadBytes = 168;
std::size_t bytes_behind(ConstBytes head);
// Throws Error if the bytes are no message.
Message decode(ConstBytes bytes);

}  // namespace starling
