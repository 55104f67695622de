// EnginePlace: where in a job this process stands, as the engine that has started it says in variables of its
// own. Whom `starling launch` starts has those of job/job.h instead.
#pragma once

#include <optional>
#include <string>

#include "job/variables.h"

namespace starling {

struct EnginePlace {
  std::string engine;  // as people call it
  std::string job;     // tells it from the engine's other jobs: "slurm-12.0"
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among those on this machine
  int machine = 0, machines = 1;
  int cores = 0;           // of this machine that are the job's; 0: nobody says
  std::string rendezvous;  // host:port where rank 0 is to listen
  std::string more;        // what to tell the engine to get another number: "srun -n"
};

// Nothing if no engine has started this process, or it alone. Throws Error on what makes no sense.
std::optional<EnginePlace> engine_place(const Variables& variables = Variables());

// STARLING_SECRET, or one that all processes of the job make of its user's key (job/user_key.h).
std::string secret_of(const EnginePlace& place);

// As a rendezvous is written: an IPv6 address in brackets.
std::string host_and_port(const std::string& host, int port);

// A port that all processes of the job find alike, and another job hardly; below those that systems give
// away.
int port_for(const std::string& job);

}  // namespace starling
