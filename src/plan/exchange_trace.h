// An exchange, iteration by iteration: the real one, run in the simulator on a network where every
// message takes one second, so that an iteration is a second.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "runtime/comm.h"

namespace starling {

using Rows = std::vector<std::vector<float>>;  // one a worker, all of the same length
using Exchange = std::function<Task<>(Comm&, std::span<float>)>;

// What stood where after each iteration, from the start on, and which cells had been sent on in it.
struct ExchangeTrace {
  struct Iteration {
    Rows values;
    std::set<std::pair<std::size_t, std::size_t>> sent;  // (worker, cell)
  };
  std::vector<Iteration> iterations;
};

ExchangeTrace trace(Rows vectors, const Exchange& exchange);

// The same exchange again and again: where all stand after each round. A round of several messages
// takes several seconds; only its end is a mean.
ExchangeTrace trace_rounds(const Rows& start, int rounds, const Exchange& exchange);

// How much of everybody's weights a worker holds after each round: averaging is linear, so unit
// vectors show it.
ExchangeTrace trace_shares(int workers, int rounds, const Exchange& exchange);

// By iteration, worker and cell: which are worth showing. A partial sum that has been sent on is of
// no more use where it was.
using Visibility = std::vector<std::vector<std::vector<bool>>>;
Visibility visible_cells(const Rows& start, const Exchange& exchange);

}  // namespace starling
