// What mpirun tells its processes, Open MPI's and that of MPICH and its like: for those who talk over TCP all the
// same. Over MPI, mpi_place.h has what they need.
#pragma once

#include <optional>

#include "job/engine_place.h"

namespace starling {

// Throws Error if nothing says where the processes of several machines are to meet.
std::optional<EnginePlace> mpirun_place(const Variables& variables);

}  // namespace starling
