// starling bench exchange: all-reduces between real processes over TCP, beside Gloo's and Open MPI's
// in the same run.
#pragma once

#include <string>
#include <vector>

#include "measure/contestants.h"

namespace starling {

struct ExchangeBench {
  std::vector<int> workers = {2, 4, 8};
  std::vector<std::size_t> sizes_bytes;
  std::vector<std::string> algorithms = {"all"};
  double seconds = 0.2;  // for each algorithm and size in a round
  int rounds = 3;        // in which everybody takes turns
  std::string lab;       // see launch/lab.h; empty: loopback
  bool no_peers = false;
  bool tls = false;  // measured encrypted, too
  bool mpi = false;  // over MPI, beside its own all-reduce
};

BenchResult bench_exchange(ExchangeBench bench);

}  // namespace starling
