// What other launchers tell their processes, so that programs written for these run under ours:
// torchrun's variables, and Horovod's.
#pragma once

#include <string>
#include <vector>

namespace starling {

// Where torch's own store is to listen, for programs that use torch.distributed.
struct StorePlace {
  std::string host;
  int port;
};
// At the rendezvous' host; at the next port, if none was chosen (0).
StorePlace store_beside(const std::string& rendezvous, int chosen_port);

struct WorkerPlace {
  int rank, size;              // among all workers
  int local_rank, local_size;  // among those of this machine
  int machine, machines;
  std::string host;  // by the name that the user knows it by; empty: its own
};
std::vector<std::string> variables_of_others(const WorkerPlace& worker, const StorePlace& store);

}  // namespace starling
