// A whole training in the simulator: the strategies and servers that run on sockets, in virtual
// time, on a problem small enough for thousands of workers. Computing a gradient takes a fixed
// time; the network is a model.
//
// The problem: each weight is to find its target. The gradient of a batch is the distance to it
// plus noise that depends on the batch alone, so that a run can be replayed by plain maths.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "mixing/mixing.h"
#include "server/block.h"
#include "sim/faults.h"
#include "sim/network.h"
#include "strategy/settings.h"

namespace starling {

struct SimulatedTraining {
  Settings settings;
  Network network;
  Time compute = std::chrono::milliseconds(10);  // of a step, at full speed
  double jitter = 0;                             // each step takes up to so much more, at random
  std::size_t elements = 100;
  int buckets = 1;
  std::uint64_t batches = 400;  // of all workers together
  std::uint64_t batches_per_epoch = 100;
  double noise = 0;
  std::uint64_t seed = 1;
  Faults faults;
  Time timeout{0};  // of a worker's waits, as --timeout is; 0: none
  // Who is still at it then hangs: simulate() throws Error.
  Time deadline = std::chrono::hours(24 * 365);
  std::function<void(int server, const Block&, std::span<const Push>)> on_update;
  std::function<void(Time, int rank, const std::string& what)> on_event;
};

struct SimulatedResult {
  std::vector<std::exception_ptr> errors;         // of each rank; nullptr where all went well
  std::vector<std::optional<Time>> started;       // when each worker had the first weights
  std::vector<std::optional<Time>> finished;      // when each rank had done all that it is for
  std::vector<std::vector<float>> weights;        // of each worker
  std::vector<std::uint64_t> batches;             // that each worker worked on
  std::vector<std::vector<std::uint64_t>> order;  // and which
  std::vector<std::uint64_t> wire_bytes_sent;     // by each rank, servers behind the workers
  std::vector<std::uint64_t> wire_bytes_received;
  std::optional<ServerReport> server;
  MixReport mixing;         // of all workers
  Time start{0};            // when all had the first weights
  Time time{0};             // when the last batch was done
  Time end{0};              // when the last rank had ended
  std::uint64_t trace = 0;  // of every byte, on hosts

  std::uint64_t all_batches() const;
  double batches_per_second() const;
};

// The target of weight i, and the noise of a batch on it.
float simulated_target(std::size_t i);
float simulated_noise(const SimulatedTraining& training, std::uint64_t batch, std::size_t i);

// The workers and, behind them, the servers.
int simulated_ranks(const Settings& settings);

SimulatedResult simulate(const SimulatedTraining& training);

}  // namespace starling
