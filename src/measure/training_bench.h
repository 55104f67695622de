// starling bench training: samples a second by all-reduce, beside PyTorch DDP over Gloo on the same
// model, data and batch, taking turns in one run.
#pragma once

#include <string>

#include "measure/contestants.h"
#include "strategy/settings.h"

namespace starling {

struct TrainingBench {
  Settings settings;  // but for strategy, model and data, which are what both know
  int rounds = 3;     // in which both take turns
  std::string lab;    // see launch/lab.h; empty: loopback
};

BenchResult bench_training(TrainingBench bench);

}  // namespace starling
