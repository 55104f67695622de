// What is trained on: samples that are picked by their numbers, each with what a model should say of
// it.
#pragma once

#include <torch/types.h>

#include <memory>
#include <span>

#include "base/range.h"
#include "strategy/train_settings.h"

namespace starling {

class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual std::size_t count() const = 0;

  struct Batch {
    torch::Tensor inputs;   // samples first
    torch::Tensor targets;  // which class is right, for each sample or for each place in it
  };
  virtual Batch pick(std::span<const std::int64_t> samples) const = 0;
  virtual Batch slice(Range samples) const = 0;

  // As many as are best looked at together: their activations still fit the cache.
  virtual std::size_t samples_at_once() const { return 200; }

  // By which samples can be shared out unevenly; none where they are of no kind.
  virtual std::span<const std::uint8_t> labels() const { return {}; }
};

struct DataSets {
  std::unique_ptr<DataSet> train, test;
  int classes = 0;  // among which a model chooses
};

// Throws Error, in one line with the remedy, if they cannot be had, or if there are too few samples
// for a batch.
DataSets load_data(const TrainSettings& settings, int workers);

}  // namespace starling
