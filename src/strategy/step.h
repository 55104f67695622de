// One step of a worker, the same whoever computes the gradients: a user's own loop, the built-in
// trainer, the simulator.
//
//   A. gradient_ready   for each parameter whose gradient the backward pass has. With the last one
//                       of a bucket its exchange begins, while the pass goes on.
//   B. take             waits for all buckets, lets the optimizer update, unless the strategy has
//                       done that or the worker rests, mixes weights, and clears the gradients.
//
// With several backward passes to a step the gradients add up, and only the last one's are
// exchanged.
#pragma once

#include <functional>
#include <string_view>

#include "strategy/buckets.h"

namespace starling {

class Step {
 public:
  // What whoever drives the step adds to it.
  struct Driver {
    // Brings a bucket's gradients into the replica right before they are exchanged, and says what
    // they are the product of, if that is known.
    std::function<void(Bucket&)> collect = [](Bucket&) {};
    // If there is one: called when all gradients are there, before the first of them is exchanged.
    std::function<void()> before_exchange;
    // What it takes to wait for others: a deadline, a clock.
    std::function<Task<>(const char* what, Task<>)> wait = [](const char*, Task<> task) {
      return task;
    };
  };

  // The buckets hold all parameters, and are those that the strategy was told of.
  Step(Strategy& strategy, Replica replica, std::vector<Bucket> buckets, int backward_passes,
       Driver driver);
  Step(Strategy& strategy, Replica replica, std::vector<Bucket> buckets, int backward_passes = 1)
      : Step(strategy, replica, std::move(buckets), backward_passes, Driver()) {}

  // Throws Error if the gradient is on its way to others already. The name is for the error.
  void gradient_ready(std::size_t parameter, std::string_view name);

  // Whether the step ends with the backward pass that goes on or comes next.
  bool last_pass() const { return pass_ + 1 >= backward_passes_; }
  // Another backward pass of several is over that needs nothing else: in place of take().
  void pass_over() { ++pass_; }
  // After each backward pass; false if it was not the last one of the step.
  Task<bool> take(std::function<void()> update);

 private:
  struct Exchange {
    Bucket bucket;
    std::size_t missing;  // how many of its parameters have no gradient yet in this step
    std::optional<Running> running;
  };

  void begin(Exchange& exchange);
  Task<> all_exchanges();

  Strategy& strategy_;
  Replica replica_;
  int backward_passes_;
  Driver driver_;
  std::vector<std::size_t> bucket_of_;  // each parameter
  std::vector<bool> has_gradient_;      // each parameter, in this step
  int pass_ = 0;
  Signal one_done_;
  std::vector<Exchange> exchanges_;
};

}  // namespace starling
