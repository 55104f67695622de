// World: where the tests that hold exchanges against plain maths run them: in the simulator, or, in the
// program that mpirun starts (tests/mpi/), over MPI. There each process plays one rank, so a test looks
// only at what became of ranks that this process knows.
#pragma once

#include <functional>
#include <numeric>
#include <vector>

#include "runtime/comm.h"
#ifdef STARLING_TEST_MPI
#include "tests/mpi/mpi_world.h"
#else
#include "sim/cluster.h"
#endif

namespace starling {

#ifdef STARLING_TEST_MPI

class World {
 public:
  // No: mpirun has started another number of processes.
  static bool can_have(int size) { return size == mpi_world().size(); }
  explicit World(int) {}

  void run(const std::function<Task<>(Comm&)>& program) { run_over_mpi(program(mpi_world())); }
  std::vector<std::size_t> known() const { return {static_cast<std::size_t>(mpi_world().rank())}; }
  Comm& comm(std::size_t) { return mpi_world(); }
};

#else

class World {
 public:
  // Whether a test can be run with so many ranks.
  static bool can_have(int) { return true; }
  explicit World(int size) : cluster_(size), known_(static_cast<std::size_t>(size)) {
    std::iota(known_.begin(), known_.end(), std::size_t{0});
  }

  void run(const std::function<Task<>(Comm&)>& program) { cluster_.run(program); }
  // The ranks whose outcome this process knows.
  const std::vector<std::size_t>& known() const { return known_; }
  Comm& comm(std::size_t rank) { return cluster_.comm(static_cast<int>(rank)); }

 private:
  Cluster cluster_;
  std::vector<std::size_t> known_;
};

#endif

}  // namespace starling
