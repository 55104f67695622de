// What a worker or server tells its launcher of its own traffic while it runs.
#pragma once

#include <optional>
#include <string>

#include "job/job.h"
#include "net/interface_count.h"
#include "runtime/comm.h"

namespace starling {

// Each second, how many bytes there have been so far, by purpose and by peer. Runs whenever the
// loop does.
Task<> report_traffic(Job job, Comm& comm);

// In a lab: what the kernel has counted on this process's own interface since this was made.
class KernelCount {
 public:
  explicit KernelCount(const Job& job)
      : interface_(job.interface), at_start_(own_interface_count(interface_)) {}

  // Nothing where all share one interface.
  std::optional<InterfaceCount> so_far() const;

 private:
  std::string interface_;
  std::optional<InterfaceCount> at_start_;
};

}  // namespace starling
