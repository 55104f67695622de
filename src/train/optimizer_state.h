// What torch's optimizers remember of every parameter: momenta, squares, counts of steps.
#pragma once

#include <torch/optim/optimizer.h>

#include "base/state.h"

namespace starling {

// Of SGD, Adagrad, Adam, AdamW and RMSprop; of any other it throws Error. Numbers of a parameter that
// are not one for each of its elements stand under "single".
void visit_state(torch::optim::Optimizer& optimizer, State state);

}  // namespace starling
