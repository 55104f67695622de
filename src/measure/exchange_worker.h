// Timing exchanges between real processes: what one worker of `starling bench exchange` does.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace starling {

struct ExchangeWork {
  std::vector<std::string> algorithms;
  std::vector<std::size_t> sizes_bytes;
  double seconds = 0.5;  // for each algorithm and size
};

// Joins the job, checks each exchange's result, times it, and reports a "bench" event from rank 0.
void time_exchanges(const Job& job, const ExchangeWork& work);

}  // namespace starling
