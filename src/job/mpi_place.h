// Where this process stands among those that mpirun has started, as the environment says: Open MPI's, that
// of MPICH and its like, or what Slurm's srun sets for either.
#pragma once

#include <optional>

#include "job/engine_place.h"

namespace starling {

struct MpiPlace {
  int rank, size;
  int local_rank, local_size;  // among those of this machine
};

// Throws Error if no mpirun has started this process.
MpiPlace mpi_place(const Variables& variables = Variables());

// The same for processes that talk over TCP, with the place where they meet. Nothing unless mpirun has
// started this one; srun's are for job/slurm.h.
std::optional<EnginePlace> mpirun_place(const Variables& variables);

}  // namespace starling
