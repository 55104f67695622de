// World: where the tests that hold exchanges against plain maths run them: in the simulator, or, in the
// program that mpirun starts (tests/mpi/), over MPI. There each process plays one rank, so a test looks
// only at what became of ranks that this process knows, or has them tell each other. Tests that need
// the simulator, for its time or its faults, take a Cluster, and their suite is called Simulated...:
// mpirun's program leaves these out.
#pragma once

#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "runtime/comm.h"
#include "sim/network.h"
#ifdef STARLING_TEST_MPI
#include "tests/mpi/mpi_world.h"
#else
#include "sim/cluster.h"
#endif

namespace starling {

#ifdef STARLING_TEST_MPI

class Surroundings {
 public:
  explicit Surroundings(int, const Network&) {}
  // No: mpirun has started another number of processes.
  static bool can_have(int size) { return size == mpi_world().size(); }
  std::vector<std::size_t> known() const { return {static_cast<std::size_t>(mpi_world().rank())}; }
  Comm& comm(std::size_t) { return mpi_world(); }
  static Time now(const Loop&) { return time_of_this_machine(); }

 protected:
  void run(const std::function<Task<>(Comm&)>& program) { run_over_mpi(program(mpi_world())); }
  static void meet() { meet_over_mpi(); }
  static void tell(std::size_t rank, Bytes bytes) { tell_over_mpi(static_cast<int>(rank), bytes); }
};

#else

class Surroundings {
 public:
  Surroundings(int size, const Network& network)
      : cluster_(size, network), known_(static_cast<std::size_t>(size)) {
    std::iota(known_.begin(), known_.end(), std::size_t{0});
  }
  // Whether a test can be run with so many ranks.
  static bool can_have(int) { return true; }
  // The ranks whose outcome this process knows.
  const std::vector<std::size_t>& known() const { return known_; }
  Comm& comm(std::size_t rank) { return cluster_.comm(static_cast<int>(rank)); }
  // A time that all ranks have in common.
  static Time now(const Loop& loop) { return loop.now(); }

 protected:
  void run(const std::function<Task<>(Comm&)>& program) { cluster_.run(program); }
  static void meet() {}
  static void tell(std::size_t, Bytes) {}

 private:
  Cluster cluster_;
  std::vector<std::size_t> known_;
};

#endif

class World : public Surroundings {
 public:
  // The network is the simulator's.
  explicit World(int size, const Network& network = {})
      : Surroundings(size, network), sent_(static_cast<std::size_t>(size)) {}

  void run(const std::function<Task<>(Comm&)>& program) {
    for (const std::size_t rank : known()) sent_[rank] -= payload_sent(rank);
    Surroundings::run(program);
    for (const std::size_t rank : known()) sent_[rank] += payload_sent(rank);
  }

  // For what hears whoever speaks on its channels for as long as it is there: ends when all have ended,
  // so that nobody speaks to one of an earlier run.
  void run_until_all_have_ended(const std::function<Task<>(Comm&)>& program) {
    run(program);
    meet();
  }

  // Lets all know what each rank has; where, is said by everybody.
  template <class T>
  void tell_all(std::vector<std::vector<T>>& of_ranks) {
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      tell(rank, writable_bytes(std::span(of_ranks[rank])));
    }
  }
  // The payload that a known rank has sent in all runs.
  std::uint64_t bytes_sent(std::size_t rank) const { return sent_[rank]; }
  // And each of them, told to all.
  std::vector<std::uint64_t> bytes_sent() {
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) tell(rank, object_bytes(sent_[rank]));
    return sent_;
  }

 private:
  std::uint64_t payload_sent(std::size_t rank) {
    return comm(rank).ledger().total(Direction::sent).payload;
  }

  std::vector<std::uint64_t> sent_;
};

}  // namespace starling
