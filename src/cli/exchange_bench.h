// Timing exchanges between real processes over loopback TCP: what one worker of `starling bench
// exchange` does.
#pragma once

#include <string>
#include <vector>

namespace starling {

struct ExchangeBench {
  std::vector<std::string> algorithms;
  std::vector<std::size_t> sizes_bytes;
  double seconds = 0.5;  // for each algorithm and size
};

// Joins the launched job, checks each exchange's result, times it, and reports a "bench" event from
// rank 0.
void run_exchange_bench(const ExchangeBench& bench);

}  // namespace starling
