#include "job/mpirun.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

namespace {

struct MpirunsWords {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;  // what tells it from others
};
constexpr MpirunsWords kMpirunsWords[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

// Slurm's srun speaks so to its tasks, too, and says more in words of its own.
bool is_sruns(const Variables& variables, const MpirunsWords& spoken) {
  return variables.text("SLURM_PROCID") == variables.text(spoken.rank) &&
         variables.text("SLURM_STEP_NUM_TASKS") == variables.text(spoken.size);
}

std::optional<EnginePlace> mpiruns_place(const Variables& variables, const MpirunsWords& spoken) {
  constexpr int kMostRanks = 4096, kMostPort = 65'535;
  EnginePlace place;
  place.engine = "mpirun";
  place.more = "mpirun -np";
  place.size = variables.number(spoken.size, 1, 1, kMostRanks);
  place.rank = variables.number(spoken.rank, 0, 0, place.size - 1);
  place.local_size = variables.number(spoken.local_size, 1, 1, place.size);
  place.local_rank = variables.number(spoken.local_rank, 0, 0, place.local_size - 1);
  place.machines = (place.size + place.local_size - 1) / place.local_size;
  place.machine = place.rank / place.local_size;
  const std::string job = variables.text(spoken.job);
  place.job = fmt::format("mpirun-{}", job);
  const bool all_are_here = place.local_size == place.size;
  const std::string host = variables.text("MASTER_ADDR", all_are_here ? "127.0.0.1" : "");
  const int port =
      variables.number("MASTER_PORT", job.empty() ? 0 : port_for(place.job), 1, kMostPort);
  if (place.size > 1 && (host.empty() || port == 0)) {
    throw Error(fmt::format("mpirun has started {} processes, and {} is not set", place.size,
                            host.empty() ? "MASTER_ADDR" : "MASTER_PORT"),
                "set MASTER_ADDR and MASTER_PORT to the host of rank 0 and a free port there, or "
                "give --transport mpi");
  }
  place.rendezvous = host_and_port(host, port);
  return place;
}

}  // namespace

std::optional<EnginePlace> mpirun_place(const Variables& variables) {
  for (const MpirunsWords& each : kMpirunsWords) {
    if (variables.text(each.rank).empty() || variables.text(each.size).empty()) continue;
    if (!is_sruns(variables, each)) return mpiruns_place(variables, each);
  }
  return std::nullopt;
}

}  // namespace starling
