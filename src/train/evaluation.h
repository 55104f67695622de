// How good a model is on the test samples.
#pragma once

#include "train/data_set.h"
#include "train/learner.h"

namespace starling {

struct Score {
  double accuracy = 0;
  double loss = 0;  // mean cross-entropy, in nats
  // How far the workers are from their mean: the root of the mean square distance, by the mean's
  // length.
  double spread = 0;
};

// In all of these, all who have a slice of a copy of the model call it together, and all get the score.
// This worker's own model on all test samples.
Score evaluate_own(Dist& dist, Learner& learner, const DataSet& test);

// The mean of all workers' models. Each worker scores a share of the test samples; all get the sum.
// The workers' own weights stay as they are.
Score evaluate_mean(Dist& dist, Learner& learner, const DataSet& test);

// The same once all have the same model.
Score evaluate_shared(Dist& dist, Learner& learner, const DataSet& test);

// The square root of the sum of its weights' squares.
double length_of_model(Dist& dist);

}  // namespace starling
