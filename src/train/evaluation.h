// How good a model is on the test samples.
#pragma once

#include "train/dist.h"
#include "train/images.h"

namespace starling {

struct Score {
  double accuracy = 0;
  double loss = 0;
  // How far the workers are from their mean: the root of the mean square distance, by the mean's
  // length.
  double spread = 0;
};

// This worker's own model on all test samples.
Score evaluate_own(Dist& dist, const Images& test);

// The mean of all workers' models. Each worker scores a share of the test samples; all get the sum.
// The workers' own weights stay as they are.
Score evaluate_mean(Dist& dist, const Images& test);

// The same once all have the same model.
Score evaluate_shared(Dist& dist, const Images& test);

}  // namespace starling
