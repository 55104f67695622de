// Slurm's variables: each task of a step (`srun -n 4 ...`) is a worker.
#pragma once

#include <optional>
#include <string>

#include "job/engine_place.h"

namespace starling {

// Nothing unless srun has started this process: a batch script has some of the variables, too.
std::optional<EnginePlace> slurm_place(const Variables& variables);

// Of Slurm's shorthand: node[03-07,12],other -> node03.
std::string first_host(const std::string& hosts);
// How many tasks a node has, from "4(x2),3": 4, 4 and 3. Throws Error.
int tasks_on_node(const std::string& tasks_per_node, int node);

}  // namespace starling
