// starling bench server: push and pull between real processes over TCP, beside a plain ZeroMQ program
// that does the same.
#pragma once

#include <string>
#include <vector>

#include "measure/contestants.h"

namespace starling {

struct ServerBench {
  std::vector<int> workers = {1, 2, 3, 4};
  std::vector<int> servers = {1, 2};
  std::vector<int> replicas = {
      1};  // of each shard; those beside 1 only where there are as many servers
  std::vector<std::size_t> sizes_bytes;
  double seconds = 1;  // for each measurement
  int rounds = 9;      // in which everybody takes turns
  std::string lab;     // see launch/lab.h; empty: loopback
  bool no_peers = false;
};

BenchResult bench_server(const ServerBench& bench);

}  // namespace starling
