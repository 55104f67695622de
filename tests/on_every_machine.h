// Loops that Highway compiles once for every instruction set, by each of those that this machine has.
#pragma once

#include <hwy/targets.h>

namespace starling {

template <class Visit>
void on_every_machine(const Visit& visit) {
  for (std::int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    hwy::GetChosenTarget().Update(targets & -targets);
    visit();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace starling
