// Operating errors (a lost peer, a bad file, a deadline) are exceptions of these types: they carry
// what went wrong and what to do about it, in one line a person can act on. Broken invariants are
// not errors; they stop the program, see check.h.
#pragma once

#include <stdexcept>
#include <string>

namespace starling {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, const std::string& remedy = "")
      : std::runtime_error(remedy.empty() ? what : what + "; " + remedy) {}
};

// A peer closed its connection, died or broke the protocol.
class PeerLost : public Error {
 public:
  PeerLost(int rank, const std::string& what, const std::string& remedy = "")
      : Error(what, remedy), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// This rank reaches too few of the others to go on: they may be going on without it.
class CutOff : public Error {
 public:
  using Error::Error;
};

class DeadlineExceeded : public Error {
 public:
  using Error::Error;
};

}  // namespace starling
