// What each rank of a simulated training does, on whatever Comm it has: a worker trains, a server
// serves. The problem is that of simulated_training.h.
#pragma once

#include "base/range.h"
#include "plan/simulated_training.h"
#include "runtime/comm.h"
#include "sim/sim_loop.h"

namespace starling {

class SimulatedWork {
 public:
  // Throws Error if the settings cannot be run.
  SimulatedWork(const SimulatedTraining& training, SimLoop& world);

  Task<> live(Comm& comm);
  SimulatedResult& result() { return result_; }

 private:
  Task<> serve(Comm& comm);
  Task<> work(Comm& comm);
  // Under the training's timeout.
  Task<> wait(Comm& comm, const char* what, Task<> task) const;
  std::vector<Range> parameters() const;
  double rate_of(std::uint64_t batch) const;
  void descend(std::vector<float>& weights, const std::vector<float>& gradients, double rate) const;
  Time compute_time(int rank, std::uint64_t batch) const;
  void tell(int rank, const std::string& what) const;

  const SimulatedTraining& training_;
  SimLoop& world_;
  std::size_t workers_;
  SimulatedResult result_;
};

}  // namespace starling
