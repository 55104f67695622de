// ProcessComm: a Comm between processes, over links (net/mesh.h) or over MPI (net/mpi_comm.h), with what
// whoever runs such a process asks of it besides messages.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/comm.h"

namespace starling {

class ProcessComm : public Comm {
 public:
  ProcessComm(Loop& loop, int rank, int size)
      : Comm(loop, rank, size), exceptions_at_start_(std::uncaught_exceptions()) {}

  // From now on this worker's end is a failure, not a goodbye, until it says otherwise.
  void owe_a_finish(bool owes) { owes_a_finish_ = owes; }
  // It fails on account of that rank, whom it needed and who has left.
  void blame(int rank) { blamed_ = rank; }

  // The ranks from which something is awaited on that channel, of which nothing has come.
  virtual std::vector<int> awaited(std::uint32_t channel) = 0;
  // What it waits for of all that was posted after the operation of that number, first to receive and
  // then to send: look(the peer's rank, the operation's name, whether it sends).
  template <class Look>
  void each_wait(std::uint64_t posted, const Look& look) {
    each_unfinished([&](const Operation& each, bool sends) {
      if (each.number() > posted) look(each.peer(), each.channel().operation, sends);
    });
  }
  // The kernel's numbers for what it talks through, which a forked child has, too.
  virtual std::vector<int> descriptors() = 0;

 protected:
  virtual void each_unfinished(const std::function<void(const Operation&, bool sends)>& look) = 0;

  // In a destructor: whether an error ends this worker, and whom it blames, if not itself.
  bool has_failed() const {
    return is_cut_off() || owes_a_finish_ || std::uncaught_exceptions() > exceptions_at_start_;
  }
  std::optional<int> blamed() const { return culprit() ? culprit() : blamed_; }

 private:
  int exceptions_at_start_;
  bool owes_a_finish_ = false;
  std::optional<int> blamed_;
};

}  // namespace starling
