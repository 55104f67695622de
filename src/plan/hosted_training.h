// The same trainings as simulated_training.h, on hosts (sim/fleet.h): every process joins the job, and
// its messages go in frames over links, byte by byte, as they do on real machines.
#pragma once

#include "plan/simulated_training.h"
#include "sim/switch.h"

namespace starling {

struct HostedTraining {
  SimulatedTraining training;  // whose network is no matter here
  Weather weather;
  bool encrypted = false;
};

// Of a rank that was started several times it has what came of the last.
SimulatedResult simulate(const HostedTraining& hosted);

}  // namespace starling
