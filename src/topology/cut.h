// Where a list of layers is cut into the stages of a pipeline.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/range.h"

namespace starling {

// What a layer takes for one micro-batch.
struct LayerCost {
  std::string name;
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t output_bytes = 0;  // its activations, as they go to the next layer
  std::uint64_t kept_bytes = 0;    // what it keeps for the way back, its output among it

  double seconds() const { return forward_seconds + backward_seconds; }
};

// What carries activations from a stage to the next one, and their gradients back.
struct StageLink {
  double bytes_per_second = 1.25e8;
  double latency_seconds = 0;

  double seconds(std::uint64_t bytes) const {
    return latency_seconds + static_cast<double>(bytes) / bytes_per_second;
  }
};

// The time that a stage with these layers, and the link behind it, take for one micro-batch. The
// last stage has none behind it.
double stage_seconds(std::span<const LayerCost> layers, Range stage, const StageLink& link);

// Such that the slowest stage is as fast as it can be; each has a layer with parameters. Of equally
// good cuts the one whose earlier stages are shorter. Throws Error if there are more stages than such
// layers.
std::vector<Range> cut_layers(std::span<const LayerCost> layers, int stages, const StageLink& link);

// As somebody has written it: "0-3,4-7" is two stages of four layers. Reading throws Error if that is
// not all layers, each once and in order.
std::string as_written(const std::vector<Range>& cut);
std::vector<Range> cut_as_written(const std::string& text, std::size_t layers);

}  // namespace starling
