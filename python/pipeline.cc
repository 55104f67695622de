// Where layers are cut and when each stage does what, for pipelines in Python (starling/pipeline.py).
#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "strategy/grid.h"
#include "topology/cut.h"

namespace starling {

namespace {

// Forward seconds, backward seconds, bytes of parameters, bytes of the output; of each layer.
using Costs = std::vector<std::tuple<double, double, std::uint64_t, std::uint64_t>>;

std::vector<std::pair<std::size_t, std::size_t>> cut_of(const Settings& settings,
                                                        const Costs& costs) {
  check_cut(settings, costs.size());
  std::vector<Range> cut;
  if (!settings.parallel.stages.empty()) {
    cut = cut_as_written(settings.parallel.stages, costs.size());
  } else {
    std::vector<LayerCost> layers;
    for (const auto& [forward, backward, parameter_bytes, output_bytes] : costs) {
      layers.push_back({std::to_string(layers.size()), forward, backward, parameter_bytes,
                        output_bytes, output_bytes});
    }
    cut = cut_layers(layers, settings.parallel.pipeline, StageLink());
  }
  std::vector<std::pair<std::size_t, std::size_t>> stages;
  for (const Range& stage : cut) stages.emplace_back(stage.begin, stage.end);
  return stages;
}

std::vector<std::pair<bool, int>> turns_in(const Settings& settings, int stage) {
  std::vector<std::pair<bool, int>> turns;
  for (const Turn& turn : turns_of(settings.parallel.schedule, stage, settings.parallel.pipeline,
                                   passes_of_a_batch(settings))) {
    turns.emplace_back(turn.kind == Turn::Kind::forward, turn.micro_batch);
  }
  return turns;
}

std::vector<int> stage_ranks(const Settings& settings, int worker) {
  Place place = place_of(settings, worker);
  std::vector<int> ranks;
  for (place.stage = 0; place.stage < settings.parallel.pipeline; ++place.stage) {
    ranks.push_back(worker_at(settings, place));
  }
  return ranks;
}

}  // namespace

void add_pipeline(py::module_& module) {
  module.attr("PIPELINE_GROUP") = static_cast<std::uint32_t>(GroupNumber::pipeline);
  module.def("cut_of", &cut_of, py::arg("settings"), py::arg("costs"),
             "Which layers, from and to, each stage has.");
  module.def("turns_of", &turns_in, py::arg("settings"), py::arg("stage"),
             "A stage's turns: whether it goes forward, and with which micro-batch.");
  module.def("stage_ranks", &stage_ranks, py::arg("settings"), py::arg("worker"),
             "The workers that have the stages of this one's copy of the model, in order.");
}

}  // namespace starling
