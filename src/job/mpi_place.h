// Where this process stands among those that mpirun has started, as the environment says: Open MPI's, that
// of MPICH and its like, or what Slurm's srun sets for either.
#pragma once

namespace starling {

struct MpiPlace {
  int rank, size;
  int local_rank, local_size;  // among those of this machine
};

bool is_under_mpirun();
// Throws Error if no mpirun has started this process.
MpiPlace mpi_place();

}  // namespace starling
