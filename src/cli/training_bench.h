// starling bench training: samples a second by all-reduce, beside PyTorch DDP over Gloo on the same
// model, data and batch, taking turns in one run.
#pragma once

#include <CLI/CLI.hpp>

namespace starling {

void add_training_bench(CLI::App& bench);

}  // namespace starling
