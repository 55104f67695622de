// What a training came to, as people read it.
#pragma once

#include "job/run_summary.h"

namespace starling {

// On stdout. What nobody has told is left out.
void print_summary(const RunSummary& summary);

}  // namespace starling
